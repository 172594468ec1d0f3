package dial

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/txmsg"
)

// StoreConfig says how a database is opened. The zero value works.
type StoreConfig struct {
	// Service names whose database it is, in dead letters and trails. Defaults
	// to the name of the file or database.
	Service string
	// Existing refuses a database that is missing, was never one of Settle's
	// (ErrForeign) or has the tables of an older program (ErrOlder), and leaves
	// it as it is. Defaults to false: its tables are made and brought up to date.
	Existing bool
	// MaxConns bounds the connections that business transactions and consumers
	// have at once on a server, and as many again may read. Defaults to 16.
	MaxConns int
	// Crash is called at named points by tests that kill the process there.
	// Defaults to nil: nothing.
	Crash func(point string)
}

// ErrForeign means that a database holds none of Settle's tables. It was left
// as it is.
var ErrForeign = errors.New("the database holds no tables of Settle")

// ErrOlder means that a database has the tables of an older program. It was
// left as it is.
var ErrOlder = migrate.ErrOlderSchema

// Database is one service's database, whatever its kind: the outbox as the
// application and as the relay see it, the consumer's inbox, and governance.
type Database struct {
	settle.Outbox[*sql.Tx]
	// Dialect is the SQL that its transactions and Reader speak.
	Dialect Dialect
	// Log is the outbox as a relay reads it; NewLog makes one for each relay of
	// several.
	Log    relay.Store
	NewLog func() relay.Store
	// Inbox is what the database's consumer groups have done.
	Inbox settle.Inbox[*sql.Tx]
	// Governance is what people look at and act on.
	Governance govern.Store
	// Bridge keeps dead letters of consumers that are not ours.
	Bridge bridge.Store
	// Halves keeps the records of half messages.
	Halves txmsg.Store[*sql.Tx]
	// Reader takes reads outside of transactions; it can't write.
	Reader *sql.DB

	begin func(ctx context.Context) (*sql.Tx, error)
	close func() error
}

// Begin starts a transaction that may write. It waits for its turn, or until
// ctx is done.
func (d *Database) Begin(ctx context.Context) (*sql.Tx, error) { return d.begin(ctx) }

// Close ends all connections; transactions that are open are rolled back.
func (d *Database) Close() error { return d.close() }

// CheckStore returns a *URLError if a URL can't be that of a database. It does
// no I/O.
func CheckStore(rawURL string) error {
	_, err := databaseURL(rawURL)
	return err
}

func databaseURL(rawURL string) (*url.URL, error) {
	u, err := parse("database", rawURL, databaseURLs())
	if err != nil {
		return nil, err
	}
	wrong := func(word, reason string, right int) error {
		return &URLError{Kind: "database", Wrong: word, Reason: reason, Right: databaseURLs()[right : right+1]}
	}
	switch u.Scheme {
	case "sqlite":
		if u.Host != "" || len(u.Path) < 2 || u.Path[0] != '/' {
			return nil, wrong(u.Host+u.Path+u.Opaque, "there is no absolute path in", 0)
		}
	case "postgres", "postgresql":
		switch {
		case u.Hostname() == "" && u.Query().Get("host") == "":
			return nil, wrong(u.Host, "there is no host in", 1)
		case strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "":
			return nil, wrong(u.Host, "there is no name of a database behind", 1)
		}
	case "mysql", "mariadb":
		switch {
		case u.Hostname() == "":
			return nil, wrong(u.Host, "there is no host in", 2)
		case strings.Trim(u.Path, "/") == "":
			return nil, wrong(u.Host, "there is no name of a database behind", 2)
		}
	default:
		return nil, unknownScheme("database", u, databaseURLs())
	}
	return u, nil
}

// Store opens the database at a URL and brings its tables up to date. A URL
// that can't be is a *URLError; any other error comes from the database.
func Store(ctx context.Context, rawURL string, cfg StoreConfig) (*Database, error) {
	u, err := databaseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch dialectOf(u) {
	case Postgres:
		return openPostgres(ctx, rawURL, cfg)
	case MySQL:
		return openMySQL(ctx, rawURL, cfg)
	}
	s, err := sqlite.Open(ctx, u.Path, sqlite.Config{Service: cfg.Service, Existing: cfg.Existing, Crash: cfg.Crash})
	if err != nil {
		return nil, foreign(err, sqlite.ErrForeign)
	}
	return &Database{Outbox: s, Dialect: SQLite, Log: s.Log(), NewLog: func() relay.Store { return s.Log() }, Inbox: s.Inbox(), Governance: s.Governance(), Bridge: s.Bridge(), Halves: s.Halves(), Reader: s.Reader(), begin: s.Begin, close: s.Close}, nil
}

func openPostgres(ctx context.Context, rawURL string, cfg StoreConfig) (*Database, error) {
	s, err := postgres.Open(ctx, rawURL, postgres.Config{Service: cfg.Service, Existing: cfg.Existing, MaxConns: cfg.MaxConns, Crash: cfg.Crash})
	if err != nil {
		return nil, foreign(err, postgres.ErrForeign)
	}
	return &Database{Outbox: s, Dialect: Postgres, Log: s.Log(), NewLog: func() relay.Store { return s.Log() }, Inbox: s.Inbox(), Governance: s.Governance(), Bridge: s.Bridge(), Halves: s.Halves(), Reader: s.Reader(), begin: s.Begin, close: s.Close}, nil
}

func openMySQL(ctx context.Context, rawURL string, cfg StoreConfig) (*Database, error) {
	s, err := mysql.Open(ctx, rawURL, mysql.Config{Service: cfg.Service, Existing: cfg.Existing, MaxConns: cfg.MaxConns, Crash: cfg.Crash})
	if err != nil {
		return nil, foreign(err, mysql.ErrForeign)
	}
	return &Database{Outbox: s, Dialect: MySQL, Log: s.Log(), NewLog: func() relay.Store { return s.Log() }, Inbox: s.Inbox(), Governance: s.Governance(), Bridge: s.Bridge(), Halves: s.Halves(), Reader: s.Reader(), begin: s.Begin, close: s.Close}, nil
}

// foreign makes one error of what each kind of database has of its own.
func foreign(err, own error) error {
	if errors.Is(err, own) {
		return &foreignError{err}
	}
	return err
}

type foreignError struct{ error }

func (e *foreignError) Unwrap() []error { return []error{e.error, ErrForeign} }
