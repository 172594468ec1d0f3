// Package sqlite keeps the outbox, the inbox and governance of one service in
// a SQLite file, beside the tables of its business. It needs no C compiler.
//
// A Store is the file. Begin a transaction, write the business rows, Append
// the event, commit. The relay reads Log, a consumer writes through Inbox,
// people act through Governance. Several processes may open the same file:
// their writes queue on a lock file, in turn.
//
// Read the files in this order: sqlite.go, outbox.go, log.go, inbox.go,
// governance.go; below them connector.go, queue.go and statement.go.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	modernc "modernc.org/sqlite"

	"github.com/settlemq/settle/store/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says how a file is opened. The zero value works.
type Config struct {
	// Readers is how many reads may run at once. Defaults to 4.
	Readers int
	// BusyTimeout is how long a write waits for a program that writes to the
	// file without queueing. Defaults to 5 s.
	BusyTimeout time.Duration
	// Clock tells the time that leases, due times and time stamps go by.
	// Defaults to time.Now.
	Clock func() time.Time
	// Crash is called at the named points consume.before_commit,
	// replay.before_commit and replay.after_commit, where a test kills the
	// process. Defaults to nil: nothing.
	Crash func(point string)
	// Service names the service whose file it is, in dead letters and trails.
	// Defaults to the file's name without its extension.
	Service string
	// Existing refuses a file that is missing, has no tables of this package yet
	// (ErrForeign) or those of an older program (migrate.ErrOlderSchema), and
	// leaves it as it is. Defaults to false: they are made and migrated.
	Existing bool
}

// ErrForeign means that a file holds nothing of this package.
var ErrForeign = errors.New("it holds no events of Settle; it was left as it is")

// Store is one service's database file.
type Store struct {
	path    string
	service string
	now     func() time.Time
	crash   func(point string)
	writer  *sql.DB
	reader  *sql.DB
	lease   *sql.DB
	queue   *queue
	watch   *watch
	appends [len(appendSizes)]string
}

// Open opens the file at path, creates it if it is missing (not its directory),
// and brings its tables to the schema of this program. It blocks while another
// process writes or migrates, until ctx is done.
//
// Beside the file at path there will be PATH-wal and PATH-shm (SQLite's own),
// PATH.lock (the writers' queue) and PATH-lease (renewals of leases); they
// belong to it and are not to be deleted while a process has it open.
//
// It returns an error and changes nothing when the directory is missing, the
// file is not a database, it can't be written, its schema is newer than this
// program (migrate.ErrNewerSchema), or it is foreign or older (see
// Config.Existing).
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	s, err := open(ctx, path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, explain(err))
	}
	return s, nil
}

func open(ctx context.Context, path string, cfg Config) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	if err := cfg.recognise(ctx, path); err != nil {
		return nil, err
	}
	q, err := openQueue(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, service: cfg.service(path), now: cfg.clock(), crash: cfg.crash(), queue: q, watch: newWatch(), appends: appendQueries()}
	if err := s.setUp(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) setUp(ctx context.Context, cfg Config) error {
	if err := s.prepare(ctx, cfg); err != nil {
		return err
	}
	var err error
	if s.writer, err = s.pool(s.queue, 1, dsn(s.path, cfg, writerOptions()...)); err != nil {
		return err
	}
	// One more than asked for: Log.Wait keeps one.
	s.reader, err = s.pool(nil, cfg.readers()+1, dsn(s.path, cfg, "_query_only=1"))
	return err
}

// prepare brings both files into being. It holds the writers' lock for all of
// it: two that turn a new file to WAL at once are not made to wait by SQLite,
// one of them is refused.
func (s *Store) prepare(ctx context.Context, cfg Config) error {
	if err := s.queue.acquire(ctx); err != nil {
		return err
	}
	defer s.queue.release()
	if err := s.migrate(ctx, cfg); err != nil {
		return err
	}
	return s.openLeases(ctx, cfg)
}

// writerOptions are what connections for writing are opened with. Indexes by
// key are written all over: 16 MiB of cache saves reading them back. A single
// huge transaction leaves no more than 64 MiB of WAL.
func writerOptions() []string {
	return []string{"_txlock=immediate", "_synchronous=FULL", "_pragma=cache_size(-16384)", "_pragma=journal_size_limit(67108864)"}
}

const findSchema = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '" + migrate.Table + "'"

// recognise looks for this package's tables where they must be there already,
// on a connection that can't write and with no file made beside a file that
// has none.
func (c Config) recognise(ctx context.Context, path string) error {
	if !c.Existing {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, c, "mode=ro"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var found int
	if err := db.QueryRowContext(ctx, findSchema).Scan(&found); err != nil {
		return fmt.Errorf("read tables: %w", err)
	}
	if found == 0 {
		return ErrForeign
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return migrate.Check(ctx, db, migrate.SQLite, files)
}

// migrate uses a connection that does not queue: the writers' lock is held.
func (s *Store) migrate(ctx context.Context, cfg Config) error {
	db, err := s.pool(nil, 1, dsn(s.path, cfg, "_txlock=immediate", "_journal_mode=WAL", "_synchronous=FULL"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return migrate.Up(ctx, db, migrate.SQLite, files)
}

func (s *Store) pool(q *queue, size int, dsn string) (*sql.DB, error) {
	c, err := newConnector(dsn, q, s.watch.ring)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// Renewals of leases change all the time and are worth nothing after a crash,
// so they are kept out of the file whose every commit reaches the disk. scope
// and name say what is leased.
const createLeases = `CREATE TABLE IF NOT EXISTS settle_renewal (
  scope      TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  owner      TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID`

func (s *Store) openLeases(ctx context.Context, cfg Config) error {
	var err error
	s.lease, err = s.pool(nil, 2, dsn(s.path+"-lease", cfg, "_txlock=immediate", "_journal_mode=WAL", "_synchronous=NORMAL"))
	if err != nil {
		return err
	}
	for _, create := range []string{createLeases, createMembers} {
		if _, err := s.lease.ExecContext(ctx, create); err != nil {
			return fmt.Errorf("create lease file: %w", err)
		}
	}
	return nil
}

// DB returns the pool for business transactions: one connection, so a second
// transaction waits for the first. A transaction of it takes the file's turn
// when it begins (BEGIN IMMEDIATE) and gives it back when it ends; while it is
// open, statements outside of it block. Reads that need no transaction are
// better made through Reader.
func (s *Store) DB() *sql.DB { return s.writer }

// Reader returns a pool of connections that can't write. What they read is
// committed.
func (s *Store) Reader() *sql.DB { return s.reader }

// Service is the name of the service whose file it is.
func (s *Store) Service() string { return s.service }

// Begin starts a transaction that may write. It blocks until all writers
// before it, also in other processes, have ended, or until ctx is done.
func (s *Store) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// Close ends all connections. It waits for a transaction that is open.
// Closing twice is harmless.
func (s *Store) Close() error {
	errs := []error{s.watch.close()}
	for _, db := range []*sql.DB{s.lease, s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	errs = append(errs, s.queue.close())
	return errors.Join(errs...)
}

func (c Config) readers() int {
	if c.Readers > 0 {
		return c.Readers
	}
	return 4
}

func (c Config) clock() func() time.Time {
	if c.Clock != nil {
		return c.Clock
	}
	return time.Now
}

func (c Config) crash() func(string) {
	if c.Crash != nil {
		return c.Crash
	}
	return func(string) {}
}

func (c Config) service(path string) string {
	if c.Service != "" {
		return c.Service
	}
	name := filepath.Base(path)
	return name[:len(name)-len(filepath.Ext(name))]
}

func dsn(path string, c Config, options ...string) string {
	busy := c.BusyTimeout
	if busy <= 0 {
		busy = 5 * time.Second
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_busy_timeout=" + strconv.FormatInt(busy.Milliseconds(), 10)
	for _, o := range options {
		name += "&" + o
	}
	return name
}

// inspect refuses what SQLite would only trip over later.
func inspect(path string) error {
	dir, err := os.Stat(filepath.Dir(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %s does not exist", filepath.Dir(path))
	case err != nil:
		return err
	case !dir.IsDir():
		return fmt.Errorf("%s is not a directory", filepath.Dir(path))
	}
	file, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !file.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	// Asked of the kernel, not tried: closing a file drops the locks that
	// SQLite has on it anywhere in this process.
	if err := unix.Access(path, unix.W_OK); err != nil {
		return fmt.Errorf("this process may not write to it: %w", err)
	}
	return nil
}

// Codes of SQLite that have a cause outside of this program.
const (
	codeReadOnly = 8
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
	codeUnique   = 2067
)

// explain puts SQLite's terse codes into words.
func explain(err error) error {
	var e *modernc.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case codeNotADB:
		return fmt.Errorf("the file is not a SQLite database: %w", err)
	case codeReadOnly:
		return fmt.Errorf("the file is read-only: %w", err)
	case codeFull:
		return fmt.Errorf("the disk is full: %w", err)
	case codeCantOpen:
		return fmt.Errorf("the file, or one beside it, can't be opened: %w", err)
	}
	return err
}
