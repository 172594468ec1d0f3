package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle/store/migrate"
)

// Schema connects to the schema at url for looking at its tables and changing
// them. A schema of the database that is missing is made if create is set; else
// it can only be looked at. No error shows the password.
func Schema(ctx context.Context, url string, create bool) (*migrate.Schema, error) {
	s, err := openSchema(ctx, url, create)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", explain(err))
	}
	return s, nil
}

func openSchema(ctx context.Context, url string, create bool) (*migrate.Schema, error) {
	base, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, wrongURL(err)
	}
	cfg := base.ConnConfig
	cfg.ConnectTimeout = Config{}.withDefaults().ConnectTimeout
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, current, err := look(ctx, conn)
	if err == nil && create {
		err = makeSchema(ctx, conn, current, cfg.RuntimeParams["search_path"])
	}
	var adopted bool
	if err == nil {
		err = conn.QueryRow(ctx, readsAdopted).Scan(&adopted)
	}
	var decided *adoption
	if err == nil && adopted {
		decided, _, err = readAdoption(ctx, conn)
	}
	if err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	files, err := layout(adopted)
	if err != nil {
		return nil, err
	}
	guard := guardUndelivered
	if adopted {
		guard = guardAdopted
	}
	var before func(context.Context, *sql.DB) (string, error)
	if decided != nil {
		passed := passedRows{decided, current}
		before = passed.before
		guard = func(ctx context.Context, tx *sql.Tx) error {
			if err := guardAdopted(ctx, tx); err != nil {
				return err
			}
			return passed.guard(ctx, tx)
		}
	}
	source := migrate.Source{
		Dialect: migrate.Postgres, Files: files, Guard: guard, Before: before, Explain: explainMigration, Close: func() error { return nil },
		Lock: func(ctx context.Context) (func() error, error) { return lockMigrations(ctx, cfg) },
	}
	if create || current != "" {
		source.DB = stdlib.OpenDB(*cfg)
		source.Close = source.DB.Close
	}
	if !adopted {
		source.Layouts = &searchIndexes{db: source.DB, files: files, cfg: cfg}
		source.Partitions = &partitioning{there: source.DB != nil, files: files, cfg: cfg}
	}
	return migrate.NewSchema(source), nil
}

// lockMigrations holds the lock in a transaction of its own.
func lockMigrations(ctx context.Context, cfg *pgx.ConnConfig) (unlock func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	unlock = func() error { return conn.Close(context.WithoutCancel(ctx)) }
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, migrateAlone)
	}
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

const (
	// Whoever writes is waited for, and keeps out until the way down has ended.
	keepWritersOut   = `SET LOCAL lock_timeout = '10s'; LOCK TABLE t_outbox_event, t_consume_retry IN ACCESS EXCLUSIVE MODE`
	countUndelivered = `SELECT (SELECT count(*) FROM v_outbox_event WHERE status NOT IN ('SENT', 'DISCARDED')), (SELECT count(*) FROM t_consume_retry)
 + (SELECT count(*) FROM t_dead_letter WHERE service_side = 'bridge' AND state IN ('OPEN', 'REPLAYING'))`
)

func guardUndelivered(ctx context.Context, tx *sql.Tx) error {
	if err := nobodyLeads(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, keepWritersOut); err != nil {
		return fmt.Errorf("wait for those who write: %w", explain(err))
	}
	if err := guardHalves(ctx, tx); err != nil {
		return err
	}
	var unsent, waiting int64
	if err := tx.QueryRowContext(ctx, countUndelivered).Scan(&unsent, &waiting); err != nil {
		return fmt.Errorf("count what is not delivered: %w", explain(err))
	}
	if unsent+waiting > 0 {
		return fmt.Errorf("%d events are not sent and %d wait to take effect: %w", unsent, waiting, migrate.ErrUndelivered)
	}
	return nil
}

const (
	// Only tables of our own are locked: nobody else's program waits.
	keepRelaysOut = `SET LOCAL lock_timeout = '10s'; LOCK TABLE t_outbox_checkpoint, t_outbox_extra, t_outbox_parked, t_outbox_delayed, t_outbox_projection, t_consume_retry IN ACCESS EXCLUSIVE MODE`

	// What waits in the adopted table stays there for whoever sends it next; but
	// what was sent and is not marked there would be sent once more.
	countUnmarked = `SELECT (SELECT count(*) FROM t_outbox_projection p JOIN settle_outbox_row() e ON e.id = p.id), (SELECT count(*) FROM t_consume_retry)
 + (SELECT count(*) FROM t_dead_letter WHERE service_side = 'bridge' AND state IN ('OPEN', 'REPLAYING'))`
)

func guardAdopted(ctx context.Context, tx *sql.Tx) error {
	if err := nobodyLeads(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, keepRelaysOut); err != nil {
		return fmt.Errorf("wait for those who write: %w", explain(err))
	}
	if err := guardHalves(ctx, tx); err != nil {
		return err
	}
	var unmarked, waiting int64
	if err := tx.QueryRowContext(ctx, countUnmarked).Scan(&unmarked, &waiting); err != nil {
		return fmt.Errorf("count what is not delivered: %w", explain(err))
	}
	if unmarked+waiting > 0 {
		return fmt.Errorf("the status of %d rows is not written yet and %d events wait to take effect: %w", unmarked, waiting, migrate.ErrUndelivered)
	}
	return nil
}
