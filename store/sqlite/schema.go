package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/migrate"
)

// Schema opens the file at path for looking at its schema and changing it. A
// file that is missing is made if create is set; else it can only be looked at.
func Schema(ctx context.Context, path string, create bool) (*migrate.Schema, error) {
	s, err := openSchema(ctx, path, create)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, explain(err))
	}
	return s, nil
}

func openSchema(ctx context.Context, path string, create bool) (*migrate.Schema, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	source := migrate.Source{Dialect: migrate.SQLite, Files: files, Close: func() error { return nil }}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create {
		source.Lock = func(context.Context) (func() error, error) {
			return nil, fmt.Errorf("%s does not exist", path)
		}
		return migrate.NewSchema(source), nil
	}
	q, err := openQueue(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, queue: q, watch: newWatch()}
	source.Guard = func(ctx context.Context, tx *sql.Tx) error {
		if err := s.nobodyLeads(ctx); err != nil {
			return err
		}
		return guardUndelivered(ctx, tx)
	}
	source.DB, err = s.pool(nil, 1, dsn(path, Config{}, "_txlock=immediate", "_journal_mode=WAL", "_synchronous=FULL"))
	if err == nil {
		err = source.DB.PingContext(ctx)
	}
	source.Lock = func(ctx context.Context) (func() error, error) {
		if err := q.acquire(ctx); err != nil {
			return nil, err
		}
		return func() error { q.release(); return nil }, nil
	}
	source.Close = func() error { return errors.Join(source.DB.Close(), s.Close()) }
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return migrate.NewSchema(source), nil
}

// nobodyLeads refuses while a relay leads, paused or not: it would go on without
// its tables. The caller holds the file's write lock, so that no lease is taken.
func (s *Store) nobodyLeads(ctx context.Context) error {
	if err := s.openLeases(ctx, Config{}); err != nil {
		return err
	}
	lead, err := readLease(ctx, s.lease, 0)
	if err != nil {
		return fmt.Errorf("look who leads: %w", err)
	}
	if time.Now().Before(lead.expires) {
		return fmt.Errorf("%w: %s, until %s; end it (settle serve, or the program that runs the relay) and every standby, or wait until then", govern.ErrLeads, lead.owner, lead.expires.UTC().Format("15:04:05"))
	}
	return nil
}

const countUndelivered = `SELECT (SELECT count(*) FROM v_outbox_event WHERE status NOT IN ('SENT', 'DISCARDED')), (SELECT count(*) FROM t_consume_retry)
 + (SELECT count(*) FROM t_dead_letter WHERE service_side = 'bridge' AND state IN ('OPEN', 'REPLAYING'))`

const (
	hasHalves = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 't_half_message')`

	countHalves = `SELECT count(*) FROM t_half_message WHERE state IN ('COMMITTED', 'DEAD')`
)

// guardUndelivered runs in a transaction that began with the file's write lock.
func guardUndelivered(ctx context.Context, tx *sql.Tx) error {
	var unsent, waiting int64
	if err := tx.QueryRowContext(ctx, countUndelivered).Scan(&unsent, &waiting); err != nil {
		return fmt.Errorf("count what is not delivered: %w", err)
	}
	var halves int64
	var there bool
	if err := tx.QueryRowContext(ctx, hasHalves).Scan(&there); err != nil {
		return fmt.Errorf("look for half messages: %w", err)
	}
	if there {
		if err := tx.QueryRowContext(ctx, countHalves).Scan(&halves); err != nil {
			return fmt.Errorf("count half messages that are not confirmed: %w", err)
		}
	}
	if unsent += halves; unsent+waiting > 0 {
		return fmt.Errorf("%d events are not sent and %d wait to take effect: %w", unsent, waiting, migrate.ErrUndelivered)
	}
	return nil
}
