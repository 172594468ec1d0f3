package postgres

import (
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
	lines := strings.Split(strings.TrimSpace(c.Error()), "\n")
	reason := strings.TrimSpace(lines[len(lines)-1])
	if errors.As(err, &e) {
		reason = e.Message
	}
	at := net.JoinHostPort(c.Config.Host, strconv.Itoa(int(c.Config.Port)))
	return &connectError{text: fmt.Sprintf("connect to %s as %s, database %s: %s", at, c.Config.User, c.Config.Database, reason), err: err}
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
