package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

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
		return nil, errURL
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
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
	if err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	source := migrate.Source{
		Dialect: migrate.Postgres, Files: files, Guard: guardUndelivered, Close: func() error { return nil },
		Lock: func(ctx context.Context) (func() error, error) { return lockMigrations(ctx, cfg) },
	}
	if create || current != "" {
		source.DB = stdlib.OpenDB(*cfg)
		source.Close = source.DB.Close
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
	countUndelivered = `SELECT (SELECT count(*) FROM v_outbox_event WHERE status NOT IN ('SENT', 'DISCARDED')), (SELECT count(*) FROM t_consume_retry)`
)

func guardUndelivered(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, keepWritersOut); err != nil {
		return fmt.Errorf("wait for those who write: %w", explain(err))
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
