package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3/database"
)

// ErrUndelivered means that a way down would delete events that have not been
// delivered. Nothing was changed.
var ErrUndelivered = errors.New("they would be lost; let the relay and the consumers finish, or discard them")

// ErrWouldBeSent means that a way down would leave rows waiting which people have
// decided are not to be sent. Nothing was changed.
var ErrWouldBeSent = errors.New("whoever reads the table next would send them")

// Source says where a schema is and how it is kept.
type Source struct {
	// DB is nil for a database that does not exist yet.
	DB      *sql.DB
	Dialect Dialect
	Files   fs.FS
	// Lock keeps other processes from migrating the same database until unlock
	// is called.
	Lock func(ctx context.Context) (unlock func() error, err error)
	// Guard looks, in the transaction of a way down that drops something and
	// with writers kept out until it ends, for what was not delivered. It
	// returns an error that wraps ErrUndelivered if there is anything.
	Guard func(ctx context.Context, tx *sql.Tx) error
	// Stepwise takes the place of Guard where each statement that changes the
	// schema is committed by itself; nil elsewhere.
	Stepwise Stepwise
	// Before returns SQL, in lines with a comment, that a person runs before a way
	// down that drops something; nil, or empty, for none.
	Before func(ctx context.Context, db *sql.DB) (string, error)
	// Layouts changes the layout of the outbox; nil where there is only one.
	Layouts Layouts
	// Partitions divides the outbox; nil where it is one table for ever.
	Partitions Partitions
	// Explain puts what a person can mend into an error, with the SQL for it; nil
	// where errors stay as they are.
	Explain func(err error) error
	// Close ends what was opened for this.
	Close func() error
}

// Schema is what a database has of the tables that this program wants.
type Schema struct{ s Source }

// NewSchema returns the schema of a source. It does no I/O.
func NewSchema(s Source) *Schema { return &Schema{s} }

// Close ends its connections.
func (s *Schema) Close() error { return s.s.Close() }

// Explain puts what a person can mend into an error of s, as the database's
// other commands do.
func (s *Schema) Explain(err error) error {
	if s.s.Explain == nil || err == nil {
		return err
	}
	return s.s.Explain(err)
}

// Step is one migration.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`

	text string
}

// Status returns every step that this program knows, in order. It fails with
// ErrNewerSchema if the database knows more.
func (s *Schema) Status(ctx context.Context) ([]Step, error) {
	steps, err := s.steps()
	if err != nil {
		return nil, err
	}
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	if last := steps[len(steps)-1].Version; version > last {
		return nil, fmt.Errorf("schema version %d, this program knows %d: %w", version, last, ErrNewerSchema)
	}
	for i := range steps {
		steps[i].Applied = steps[i].Version <= version
	}
	return steps, nil
}

// steps reads the files.
func (s *Schema) steps() ([]Step, error) {
	names, err := fs.Glob(s.s.Files, "*.sql")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("read migrations: %w", errors.Join(err, fs.ErrNotExist))
	}
	slices.Sort(names)
	var steps []Step
	for _, file := range names {
		number, name, _ := strings.Cut(strings.TrimSuffix(file, ".sql"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", file, err)
		}
		b, err := fs.ReadFile(s.s.Files, file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", file, err)
		}
		steps = append(steps, Step{Version: version, Name: name, text: string(b)})
	}
	return steps, nil
}

func (s *Schema) version(ctx context.Context) (int64, error) {
	if s.s.DB == nil {
		return 0, nil
	}
	found, err := hasTable(ctx, s.s.DB, s.s.Dialect, Table)
	if err != nil || !found {
		return 0, err
	}
	store, err := database.NewStore(database.Dialect(s.s.Dialect), Table)
	if err != nil {
		return 0, err
	}
	version, err := store.GetLatestVersion(ctx, s.s.DB)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// Up applies what is missing and returns it.
func (s *Schema) Up(ctx context.Context) (applied []Step, err error) {
	unlock, err := s.s.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for another process that migrates: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if s.s.Stepwise != nil {
		if err := s.s.Stepwise.Resume(ctx); err != nil {
			return nil, err
		}
	}
	before, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := Up(ctx, s.s.DB, s.s.Dialect, s.s.Files); err != nil {
		return nil, err
	}
	for _, step := range before {
		if !step.Applied {
			applied = append(applied, step)
		}
	}
	return applied, nil
}

const dropTable = `DROP TABLE ` + Table

// Down takes back every step above a version, all or none, and returns them,
// the last first; above 0 that is all there is. It starts from the newest schema
// only.
//
// Crash here: all of it was one transaction, or none; see Stepwise for a
// database that commits each statement by itself.
func (s *Schema) Down(ctx context.Context, to int64) (removed []Step, err error) {
	unlock, err := s.s.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for another process that migrates: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if s.s.Stepwise != nil {
		return s.downStepwise(ctx, to)
	}
	removed, err = s.above(ctx, to)
	if err != nil || len(removed) == 0 {
		return removed, err
	}
	store, err := database.NewStore(database.Dialect(s.s.Dialect), Table)
	if err != nil {
		return nil, err
	}
	tx, err := s.s.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if slices.ContainsFunc(removed, Step.drops) {
		if err := s.s.Guard(ctx, tx); err != nil {
			return nil, err
		}
	}
	for _, step := range removed {
		if _, err := tx.ExecContext(ctx, step.section(goingDown)); err != nil {
			return nil, fmt.Errorf("take back schema version %d: %w", step.Version, err)
		}
		if err := store.Delete(ctx, tx, step.Version); err != nil {
			return nil, fmt.Errorf("take back schema version %d: %w", step.Version, err)
		}
	}
	if to == 0 {
		if _, err := tx.ExecContext(ctx, dropTable); err != nil {
			return nil, fmt.Errorf("take back schema: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("take back schema: %w", err)
	}
	return removed, nil
}

// above returns the applied steps above a version, the last first; none where
// nothing is there.
func (s *Schema) above(ctx context.Context, to int64) ([]Step, error) {
	steps, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(steps, func(step Step) bool { return step.Applied }) {
		return nil, nil
	}
	if !steps[len(steps)-1].Applied {
		return nil, errors.New("the schema is older than this program; migrate it first, or use the program that made it")
	}
	slices.Reverse(steps)
	return slices.DeleteFunc(steps, func(step Step) bool { return step.Version <= to }), nil
}

// Directions of a migration, as the files name them.
const (
	goingUp   = "Up"
	goingDown = "Down"
)

var drop = regexp.MustCompile(`(?i)\bDROP\s+(TABLE|COLUMN)\b`)

func (s Step) drops() bool { return drop.MatchString(s.section(goingDown)) }

// statements returns one direction's SQL, one statement at a time, for a
// database of whose migrations none has one within another.
func (s Step) statements(direction string) []string {
	var all []string
	for _, text := range strings.SplitAfter(s.section(direction), ";\n") {
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		if sql := strings.TrimSpace(strings.Join(lines, "")); sql != "" {
			all = append(all, sql)
		}
	}
	return all
}

// section returns one direction's SQL without the tool's marks.
func (s Step) section(direction string) string {
	var lines []string
	inside := false
	for line := range strings.Lines(s.text) {
		mark, isMark := strings.CutPrefix(strings.TrimSpace(line), "-- +goose ")
		switch {
		case isMark && (mark == goingUp || mark == goingDown):
			inside = mark == direction
		case !isMark && inside:
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "")) + "\n"
}
