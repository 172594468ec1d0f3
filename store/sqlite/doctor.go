package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	modernc "modernc.org/sqlite"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a file is examined. The zero value works.
type DoctorConfig struct {
	// BusyTimeout is how long a look waits for a program that holds the file.
	// Defaults to 5 s.
	BusyTimeout time.Duration
	// Clock tells whether a lease runs. Defaults to time.Now.
	Clock func() time.Time
	// Volume tells what the file lies on. Defaults to asking the kernel.
	Volume func(path string) (Volume, error)
}

// Volume is what a file lies on.
type Volume struct {
	// Magic is the kernel's number of the kind of file system.
	Magic uint32
	// Free and Size are in bytes, for a user without privileges.
	Free, Size uint64
}

// Doctor examines a file without changing it.
type Doctor struct {
	path string
	cfg  DoctorConfig
}

var _ doctor.Checker = (*Doctor)(nil)

// NewDoctor returns a Doctor for the file at path. It does no I/O.
func NewDoctor(path string, cfg DoctorConfig) *Doctor {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Volume == nil {
		cfg.Volume = statVolume
	}
	return &Doctor{path: path, cfg: cfg}
}

// statVolume asks the kernel.
func statVolume(path string) (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Volume{}, err
	}
	return Volume{Magic: uint32(s.Type), Free: uint64(s.Bavail) * uint64(s.Bsize), Size: uint64(s.Blocks) * uint64(s.Bsize)}, nil
}

// Check implements doctor.Checker.
func (d *Doctor) Check(ctx context.Context) ([]doctor.Finding, error) {
	return d.explained(ctx, (*examination).checks)
}

// Durability implements doctor.Checker.
func (d *Doctor) Durability(ctx context.Context) ([]doctor.Finding, error) {
	return d.explained(ctx, func(x *examination) []check {
		return slices.DeleteFunc(x.checks(), func(c check) bool {
			return !slices.Contains([]string{"file_system", "synchronous"}, c.name)
		})
	})
}

func (d *Doctor) explained(ctx context.Context, checks func(*examination) []check) ([]doctor.Finding, error) {
	all, err := d.examine(ctx, checks)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", d.path, explain(err))
	}
	return all, nil
}

func (d *Doctor) examine(ctx context.Context, checks func(*examination) []check) ([]doctor.Finding, error) {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the file does not exist; settle migrate --db URL makes it")
	} else if err != nil {
		return nil, err
	}
	x := &examination{cfg: d.cfg, path: path}
	opened := Config{BusyTimeout: d.cfg.BusyTimeout}
	if x.db, err = sql.Open("sqlite", dsn(path, opened, "mode=ro", "_query_only=1")); err != nil {
		return nil, err
	}
	defer func() { _ = x.db.Close() }()
	x.db.SetMaxOpenConns(1)
	var tables int
	if err := x.db.QueryRowContext(ctx, countTables).Scan(&tables); err != nil && !corrupt(err) {
		return nil, err
	}
	var all []doctor.Finding
	for _, c := range checks(x) {
		all = append(all, run(ctx, c))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A file that can't answer this is no database, or a damaged one.
const countTables = `SELECT count(*) FROM sqlite_master`

// codeCorrupt is SQLite's for a damaged file.
const codeCorrupt = 11

func corrupt(err error) bool {
	var e *modernc.Error
	return errors.As(err, &e) && e.Code()&0xff == codeCorrupt
}

// check is one thing that is looked at, and what it matters for.
type check struct {
	name, why string
	look      func(ctx context.Context) (doctor.Diagnosis, error)
}

func run(ctx context.Context, c check) doctor.Finding {
	r, err := c.look(ctx)
	if err != nil {
		r = doctor.Unseen(explain(err).Error(), "mend what integrity, schema and tables name, and look again")
	}
	return r.Of(c.name, c.why)
}

// examination is one look at one file.
type examination struct {
	cfg  DoctorConfig
	path string
	db   *sql.DB
}

func (x *examination) checks() []check {
	return []check{
		{"writable", "the relay and consumers write with every step", x.writable},
		{"file_system", "SQLite's journal needs shared memory and locks that hold, and a disk that keeps what was synced", x.fileSystem},
		{"free_space", "when the disk is full no transaction commits", x.freeSpace},
		{"integrity", "a page that was damaged takes the rows on it with it", x.integrity},
		{"journal_mode", "without WAL every reader stops the writers", x.journalMode},
		{"synchronous", "an event that was answered as committed must outlive a power cut", x.synchronous},
		{"schema", "relays, consumers and people write into the tables of this program's version", x.schemaVersion},
		{"tables", "a table, column, index or trigger that is missing or was changed stops whoever needs it", x.tables},
		{"generation", "a relay whose position belongs to another life of the table (restored, emptied) stops", x.generation},
		{"never_sent", "a row below the relay's position that was never sent, because a program has chosen its id itself, counts as sent and is deleted as such", x.neverSent},
		{"relay", "events wait while no relay leads; leaders that die one after the other may be killed by an event", x.relay},
	}
}
