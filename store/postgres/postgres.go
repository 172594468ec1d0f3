// Package postgres keeps the outbox, the inbox and governance of one service in
// a PostgreSQL database, beside the tables of its business.
//
// A Store is the schema that the URL's search_path names, or the first one of
// the role's. Begin a transaction, write the business rows, Append the event,
// commit. The relay reads Log, a consumer writes through Inbox, people act
// through Governance. Any number of processes may open the same schema.
//
// It keeps no state in a session, so a pooler in transaction mode may stand
// between; it is noticed, and nothing is prepared by name then.
//
// Read the files in this order: postgres.go, connect.go, outbox.go, log.go,
// inbox.go, governance.go.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/settlemq/settle"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrForeign means that a schema holds nothing of this package.
var ErrForeign = errors.New("it holds no events of Settle; it was left as it is")

// Store is one service's schema.
type Store struct {
	cfg     Config
	service string
	// member names this Store among those of all processes that consume.
	member string
	crowd  crowd
	now    func() time.Time
	crash  func(point string)
	// The relay and leases have connections of their own: a business that has
	// taken all of its own must not stop them.
	own      *pgxpool.Pool
	business *pgxpool.Pool
	reading  *pgxpool.Pool
	db       *sql.DB
	reader   *sql.DB
	bell     *bell
	// adopted is the table of another owner that stands in for an outbox of our
	// own; nil where there is one. What is written into it is in project, and
	// what is looked for there in status.
	adopted *adoption
	project projection
	status  statusSweep
	appends appendQueries
	// partitioned is whether the outbox was in partitions when that was last seen.
	partitioned atomic.Bool
	// shared is the consume log that foreign consumers write to; nil: none do.
	shared *sharing
}

// Open connects to the schema at url (postgres://user:password@host:port/name,
// with ?search_path=schema for another schema than the role's, which is made
// when it is missing) and brings its tables to the schema of this program. It
// blocks while another process migrates, until ctx is done.
//
// It returns an error and changes nothing when the server can't be reached, the
// schema is newer than this program (migrate.ErrNewerSchema), the server can't
// be written to, or the schema is foreign or older (see Config.Existing). No
// error shows the password.
func Open(ctx context.Context, url string, cfg Config) (*Store, error) {
	s := &Store{cfg: cfg.withDefaults(), now: time.Now, bell: newBell(), appends: newAppendQueries()}
	s.crash, s.member = s.cfg.Crash, settle.NewID()
	if cfg.Clock != nil {
		s.now = cfg.Clock
	}
	if err := s.open(ctx, url); err != nil {
		return nil, fmt.Errorf("open database: %w", errors.Join(explain(err), s.Close()))
	}
	return s, nil
}

// DB returns the pool for business transactions. A transaction that says
// nothing for six times Config.IdleTimeout is ended.
func (s *Store) DB() *sql.DB { return s.db }

// Reader returns a pool of connections that can't write. What they read is
// committed.
func (s *Store) Reader() *sql.DB { return s.reader }

// Pool is DB for those who use pgx itself.
func (s *Store) Pool() *pgxpool.Pool { return s.business }

// Service is the name of the service whose schema it is.
func (s *Store) Service() string { return s.service }

// Begin starts a business transaction. It blocks until a connection is free,
// or until ctx is done.
func (s *Store) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// Close ends all connections. It waits for transactions that are open.
// Closing twice is harmless.
func (s *Store) Close() error {
	errs := []error{s.bell.close()}
	for _, db := range []*sql.DB{s.db, s.reader} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	for _, p := range []*pgxpool.Pool{s.own, s.business, s.reading} {
		if p != nil {
			p.Close()
		}
	}
	return errors.Join(errs...)
}
