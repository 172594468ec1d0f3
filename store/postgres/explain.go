package postgres

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
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
	stateNoFunction = "42883" // an operator that a type does not have, too
	stateWrongType  = "42804"
	stateTooMany    = "53300"
	stateDiskFull   = "53100"
	statePooler     = "08P01"

	stateTableThere    = "42P07"
	stateColumnThere   = "42701"
	stateObjectThere   = "42710"
	stateFunctionThere = "42723"
)

// explained is an error with a sentence for people before it.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text + ": " + e.err.Error() }
func (e *explained) Unwrap() error { return e.err }

// explain puts what a person can mend into a sentence, with the SQL for it. What
// was explained before stays as it is.
func explain(err error) error {
	var before *explained
	var e *pgconn.PgError
	if err == nil || errors.As(err, &before) {
		return err
	}
	err = oneLine(err)
	var scan pgx.ScanArgError
	if errors.As(err, &scan) {
		return &explained{changed, err}
	}
	if !errors.As(err, &e) {
		return err
	}
	user, database := "…", "…"
	var c *pgconn.ConnectError
	if errors.As(err, &c) {
		user, database = identifier(c.Config.User), identifier(c.Config.Database)
	}
	text := ""
	switch e.Code {
	case statePooler:
		if !strings.Contains(e.Message, "startup parameter") {
			return err
		}
		text = "a pooler refuses a setting of the URL; set it for the role instead: ALTER ROLE … SET search_path = …, or give the service a database of its own"
	case statePassword, stateNoPassword:
		text = "the server refuses this user or password; ALTER ROLE " + user + " LOGIN PASSWORD '…' sets it anew"
	case stateNoDatabase:
		text = "the database does not exist; CREATE DATABASE " + database + " makes it"
	case stateReadOnly:
		text = "the server can't be written to; give the URL of the primary, or ALTER ROLE … RESET default_transaction_read_only"
	case stateNoRight:
		text = "a right is missing; the owner can: " + grant(e.Message) + " (`settle doctor` names every right that is missing)"
	case stateNoTable, stateNoColumn, stateNoFunction, stateWrongType:
		text = changed
	case stateTooMany:
		text = "the server has no connection left for this role or database; end some, or ALTER SYSTEM SET max_connections = … and restart it"
	case stateDiskFull:
		text = "the server's disk is full"
	default:
		return err
	}
	return &explained{text, err}
}

// explainMigration is explain for the steps of a migration: each is done in one
// transaction, so only a run by hand that was stopped leaves a part of one.
func explainMigration(err error) error {
	for _, state := range []string{stateTableThere, stateColumnThere, stateObjectThere, stateFunctionThere} {
		if hasState(err, state) {
			return &explained{"a part of this step is there, though the step does not count as done: a run by hand was stopped half-way. Run the rest of the step by hand, with its last line, from `settle migrate --dry-run`; or DROP what is named here, and migrate again", err}
		}
	}
	return explain(err)
}

// changed says where the SQL is found for a schema that is not as it was made.
const changed = "a table or column of Settle is missing or was changed; `settle migrate` makes what was never there, `settle doctor` names the rest and the SQL that mends it"

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

var deniedFor = regexp.MustCompile(`permission denied for (table|view|sequence|schema|database|function) (\S+)`)

var ownedBy = regexp.MustCompile(`must be owner of (table|view|relation|sequence|index|function|schema) (\S+)`)

// grant is the SQL that gives the right whose lack a message names.
func grant(message string) string {
	if owned := ownedBy.FindStringSubmatch(message); owned != nil {
		kind := strings.ToUpper(owned[1])
		if kind != "FUNCTION" && kind != "SCHEMA" {
			kind = "TABLE" // takes views, sequences and indexes, too
		}
		return "do it, or ALTER " + kind + " " + identifier(owned[2]) + " OWNER TO …"
	}
	found := deniedFor.FindStringSubmatch(message)
	if found == nil {
		return "GRANT USAGE, CREATE ON SCHEMA … TO …, GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO …"
	}
	kind, name := found[1], identifier(found[2])
	switch kind {
	case "schema":
		return "GRANT USAGE, CREATE ON SCHEMA " + name + " TO …"
	case "database":
		return "GRANT CONNECT, CREATE ON DATABASE " + name + " TO …"
	case "sequence":
		return "GRANT USAGE, SELECT ON SEQUENCE " + name + " TO …"
	case "function":
		return "GRANT EXECUTE ON FUNCTION " + name + " TO …"
	}
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + name + " TO …"
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
