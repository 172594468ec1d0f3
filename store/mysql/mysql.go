// Package mysql keeps the outbox, the inbox and governance of one service in a
// MySQL or MariaDB database, beside the tables of its business.
//
// A Store is the database that the URL names. Begin a transaction, write the
// business rows, Append the event, commit. The relay reads Log, a consumer
// writes through Inbox, people act through Governance. Any number of processes
// may open the same database.
//
// Its SQL is what MariaDB 10.6 and MySQL 8.0.16 both speak, without triggers,
// stored functions and rights beyond those on its own database.
//
// Read the files in this order: mysql.go, connect.go, session.go, outbox.go,
// log.go and inbox.go and their parts.
package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

//go:embed migrations/*.sql migrations/adopted/*.sql
var migrations embed.FS

// ErrForeign means that a database holds nothing of this package.
var ErrForeign = errors.New("it holds no events of Settle; it was left as it is")

// Store is one service's database.
type Store struct {
	cfg     Config
	service string
	server  server
	// member names this Store among those of all processes that consume.
	member string
	now    func() time.Time
	// The relay and leases have connections of their own: a business that has
	// taken all of its own must not stop them. So have consumers, whose waits
	// are bounded and whose transactions are watched.
	own     *sql.DB
	db      *sql.DB
	reader  *sql.DB
	consume *sql.DB
	// adopted is the table of another owner that stands in for an outbox of our
	// own; nil where there is one. What is written into it is in project, and
	// what is looked for there in status.
	adopted *adoption
	project projection
	status  statusSweep
	// shared is the consume log that foreign consumers write to; nil: none do.
	shared *sharing
}

// Open connects to the database at url (mysql://user:password@host:port/name)
// and brings its tables to the schema of this program. It blocks while another
// process migrates, until ctx is done.
//
// It returns an error and changes nothing when the server can't be reached, the
// schema is newer than this program (migrate.ErrNewerSchema), the server can't
// be written to, or the database is foreign (see Config.Existing). No error
// shows the password.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	s := &Store{cfg: cfg.withDefaults(), now: time.Now, member: settle.NewID()}
	if cfg.Clock != nil {
		s.now = cfg.Clock
	}
	if err := s.open(ctx, url); err != nil {
		return nil, fmt.Errorf("open database: %w", errors.Join(explain(err), s.Close()))
	}
	return s, nil
}

// DB returns the pool for business transactions. Its sessions are in UTC.
func (s *Store) DB() *sql.DB { return s.db }

// Reader returns a pool of connections that can't write. What they read is
// committed.
func (s *Store) Reader() *sql.DB { return s.reader }

// Service is the name of the service whose database it is.
func (s *Store) Service() string { return s.service }

// Begin starts a business transaction, which sees what others have committed
// before each statement. It blocks until a connection is free, or until ctx is
// done.
func (s *Store) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.db.BeginTx(ctx, &readCommitted)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// readCommitted, whatever the server's default is: a statement must see what
// another transaction has done that it has waited for.
var readCommitted = sql.TxOptions{Isolation: sql.LevelReadCommitted}

// Close ends all connections. It waits for transactions that are open.
// Closing twice is harmless.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.own, s.db, s.reader, s.consume} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
