package postgres

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that are told apart.
const (
	stateUnique     = "23505"
	stateDivision   = "22012"
	stateReadOnly   = "25006"
	stateNoPassword = "28000"
	statePassword   = "28P01"
	stateNoDatabase = "3D000"
	stateNoRight    = "42501"
	stateNoTable    = "42P01"
	stateNoColumn   = "42703"
	stateTooMany    = "53300"
	stateDiskFull   = "53100"
	statePooler     = "08P01"
)

// explain puts what a person can mend into a sentence, with the SQL for it.
func explain(err error) error {
	err = oneLine(err)
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case statePooler:
		if !strings.Contains(e.Message, "startup parameter") {
			return err
		}
		return fmt.Errorf("a pooler refuses a setting of the URL; set it for the role instead: ALTER ROLE … SET search_path = …, or give the service a database of its own: %w", err)
	case statePassword, stateNoPassword:
		return fmt.Errorf("the server refuses this user or password: %w", err)
	case stateNoDatabase:
		return fmt.Errorf("the database does not exist; CREATE DATABASE … makes it: %w", err)
	case stateReadOnly:
		return fmt.Errorf("the server can't be written to; give the URL of the primary: %w", err)
	case stateNoRight:
		return fmt.Errorf("a right is missing; the owner can GRANT CREATE, USAGE ON SCHEMA … or GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA …: %w", err)
	case stateNoTable, stateNoColumn:
		return fmt.Errorf("a table or column of Settle is missing or was changed: %w", err)
	case stateTooMany:
		return fmt.Errorf("the server has no connection left (max_connections): %w", err)
	case stateDiskFull:
		return fmt.Errorf("the server's disk is full: %w", err)
	}
	return err
}

// oneLine makes one sentence of an attempt to connect: the driver tells of each
// address, with TLS and without, in a line of its own. The password is in none.
func oneLine(err error) error {
	var c *pgconn.ConnectError
	if !errors.As(err, &c) {
		return err
	}
	var e *pgconn.PgError
	reason := causeOf(c)
	if errors.As(err, &e) {
		reason = e.Message
	}
	if ofTLS(reason) {
		reason += "; " + mendTLS
	}
	at := net.JoinHostPort(c.Config.Host, strconv.Itoa(int(c.Config.Port)))
	return &connectError{text: fmt.Sprintf("connect to %s as %s, database %s: %s", at, c.Config.User, c.Config.Database, reason), err: err}
}

// causeOf is what the driver says of the last address, without whom it asked.
func causeOf(err error) string {
	var unknown x509.UnknownAuthorityError
	var another x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "tls: the server's certificate is signed by nobody whom sslrootcert names"
	case errors.As(err, &another):
		return "tls: " + strings.TrimPrefix(another.Error(), "x509: ")
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	cause := strings.TrimSpace(lines[len(lines)-1])
	if _, behind, ok := strings.Cut(cause, "): "); ok {
		cause = behind
	}
	return cause
}

const mendTLS = "make the server and the URL agree on TLS (sslmode, sslrootcert)"

func ofTLS(reason string) bool {
	return strings.Contains(reason, "refused TLS") || strings.Contains(reason, "tls:") || strings.Contains(reason, "x509:")
}

// wrongURL says why a URL can't be used. What the driver says shows too much.
func wrongURL(err error) error {
	var p *pgconn.ParseConfigError
	if errors.As(err, &p) && strings.Contains(err.Error(), "failed to configure TLS") {
		return fmt.Errorf("sslmode, sslrootcert, sslcert or sslkey of the URL can't be used: %w", errors.Unwrap(p))
	}
	return errURL
}

type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

func hasState(err error, code string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == code
}
