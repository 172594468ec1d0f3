package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/settlemq/settle/store/migrate"
)

// adoptSchema is where Settle's own tables are when the URL names no schema.
const adoptSchema = "settle"

// Adopt makes a table of another owner the outbox of a schema of Settle's own.
// It creates nothing in the table's schema, alters nothing there and holds no
// lock that anybody waits for. New does no I/O.
type Adopt struct {
	url    string
	schema string
	cfg    migrate.AdoptConfig
}

// NewAdopt prepares the adoption of a table in the database at url. Settle's
// tables are, or will be, in the first schema of its search_path, or in the
// schema settle.
func NewAdopt(url string, cfg migrate.AdoptConfig) (*Adopt, error) {
	base, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	a := &Adopt{url: url, cfg: cfg, schema: firstSchema(base.ConnConfig.RuntimeParams["search_path"])}
	if a.schema == "" {
		a.schema = adoptSchema
	}
	if a.cfg.Wait <= 0 {
		a.cfg.Wait = time.Minute
	}
	return a, nil
}

// Schema is where Settle's own tables are, or will be.
func (a *Adopt) Schema() string { return a.schema }

func firstSchema(path string) string {
	first, _, _ := strings.Cut(path, ",")
	return strings.Trim(strings.TrimSpace(first), `"`)
}

// connect opens a session that works in Settle's schema, which need not exist.
func (a *Adopt) connect(ctx context.Context) (*pgx.Conn, error) {
	base, err := pgxpool.ParseConfig(a.url)
	if err != nil {
		return nil, errURL
	}
	cfg := base.ConnConfig
	cfg.ConnectTimeout = Config{}.withDefaults().ConnectTimeout
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if cfg.RuntimeParams["search_path"] == "" {
		cfg.RuntimeParams["search_path"] = a.schema
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// Plan looks at the table and returns what adopting it will do. It changes
// nothing. What keeps it from being done is among the plan's Refusals.
func (a *Adopt) Plan(ctx context.Context) (migrate.AdoptPlan, error) {
	var p migrate.AdoptPlan
	err := a.with(ctx, func(conn *pgx.Conn) error {
		l, err := a.look(ctx, conn)
		p = l.Plan
		return err
	})
	if err != nil {
		return p, fmt.Errorf("look at the table: %w", err)
	}
	return p, nil
}

// SQL returns what Run would run, for whoever may change the database. The
// numbers in it are those of now.
func (a *Adopt) SQL(ctx context.Context) (string, error) {
	var text string
	err := a.with(ctx, func(conn *pgx.Conn) error {
		l, err := a.look(ctx, conn)
		if err != nil {
			return err
		}
		if err := l.Err(); err != nil {
			return err
		}
		text, err = a.script(ctx, l)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("plan the adoption: %w", err)
	}
	return text, nil
}

func (a *Adopt) with(ctx context.Context, do func(conn *pgx.Conn) error) (err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(explain(err), conn.Close(context.WithoutCancel(ctx))) }()
	if _, _, err := look(ctx, conn); err != nil {
		return err
	}
	// Nobody waits long for us, and we for nobody.
	if _, err := conn.Exec(ctx, adoptSettings); err != nil {
		return err
	}
	return do(conn)
}

const adoptSettings = `SELECT set_config('lock_timeout', '3s', false), set_config('statement_timeout', '5min', false), set_config('jit', 'off', false)`

const (
	putAdoption = `INSERT INTO settle_adoption (one, decided, begun_at) VALUES (1, $1::json, clock_timestamp()) ON CONFLICT (one) DO UPDATE SET decided = excluded.decided`

	presentSchema = `SELECT coalesce(current_schema(), '')`

	isAdopted = `SELECT coalesce((SELECT adopted_at IS NOT NULL FROM settle_adoption), false)`
)

// Run adopts the table, or changes how it is read, and returns what it went by.
// After a crash half-way it goes on where that one ended.
//
// Crash here: between any two of its transactions nothing is sent yet, because
// processes refuse a schema whose adoption is not finished.
func (a *Adopt) Run(ctx context.Context) (migrate.AdoptPlan, error) {
	var p migrate.AdoptPlan
	err := a.with(ctx, func(conn *pgx.Conn) error {
		l, err := a.look(ctx, conn)
		if p = l.Plan; err != nil {
			return err
		}
		if err := l.Err(); err != nil {
			return err
		}
		return a.run(ctx, conn, l)
	})
	if err != nil {
		return p, fmt.Errorf("adopt the table: %w", err)
	}
	return p, nil
}

func (a *Adopt) run(ctx context.Context, conn *pgx.Conn, l *adoptLook) (err error) {
	var current string
	if err := conn.QueryRow(ctx, presentSchema).Scan(&current); err != nil {
		return err
	}
	if err := makeSchema(ctx, conn, current, a.schema); err != nil {
		return err
	}
	unlock, err := lockMigrations(ctx, conn.Config())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := migrateAdopted(ctx, conn.Config(), !l.alone); err != nil {
		return err
	}
	if err := putShared(ctx, conn, l.shared); err != nil || l.alone {
		return err
	}
	decided, err := json.Marshal(l.adoption)
	if err != nil {
		return err
	}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, putAdoption, string(decided)); err != nil {
			return err
		}
		for _, function := range l.adoption.functions(a.schema) {
			if _, err := tx.Exec(ctx, function); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var done bool
	if err := conn.QueryRow(ctx, isAdopted).Scan(&done); err != nil || done && !a.cfg.Again {
		return err
	}
	if done {
		if err := a.forget(ctx, conn); err != nil {
			return err
		}
	}
	return a.list(ctx, conn, l.adoption)
}
