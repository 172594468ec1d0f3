package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"

	driver "github.com/go-sql-driver/mysql"
)

// connectError says why there is no connection; no password is in it.
type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

// unreachable says in one sentence why there is no connection, and what mends it.
func unreachable(err error, cfg *driver.Config) error {
	why := func(cause, fix string) error {
		return &connectError{text: fmt.Sprintf("connect to %s as %s, database %s: %s; %s", cfg.Addr, cfg.User, cfg.DBName, cause, fix), err: err}
	}
	var e *driver.MySQLError
	var dns *net.DNSError
	var n net.Error
	switch {
	case errors.As(err, &e):
		return why(e.Message, refusal(e, cfg))
	case errors.As(err, &dns):
		return why("the name of the host can't be resolved", "put the right host into the URL")
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return why("nothing listens there", "start the server, or put the right host and port into the URL")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		return why("no answer in time", "look at the network, a firewall, or a server that was stopped")
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"), errors.Is(err, driver.ErrNoTLS):
		return why(err.Error(), "make the server and the URL agree on TLS (tls, tls_ca)")
	}
	return why(err.Error(), "is it a MySQL or MariaDB server?")
}

// namedAccount is the account that a refusal names, as SQL writes it.
var namedAccount = regexp.MustCompile(`'[^']*'@'[^']*'`)

// refusal is what mends a server's no.
func refusal(e *driver.MySQLError, cfg *driver.Config) string {
	switch e.Number {
	case codePassword:
		return fmt.Sprintf("put the right password into the URL, or ALTER USER %s IDENTIFIED BY '…'", cfg.User)
	case codeNoDatabase:
		return "CREATE DATABASE " + quoted(cfg.DBName)
	case codeNoGrant:
		account := namedAccount.FindString(e.Message)
		if account == "" {
			account = cfg.User
		}
		return fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s", quoted(cfg.DBName), account)
	case codeTooMany:
		return "end idle connections, or raise max_connections"
	}
	return "the server's log says more"
}
