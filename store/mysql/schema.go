package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/store/migrate"
)

// Schema connects to the database at url for looking at its tables and changing
// them. A database that is missing is made if create is set; else it can only
// be looked at. No error shows the password.
func Schema(ctx context.Context, url string, create bool) (*migrate.Schema, error) {
	s, err := openSchema(ctx, url, create)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", explain(err))
	}
	return s, nil
}

func openSchema(ctx context.Context, url string, create bool) (*migrate.Schema, error) {
	cfg, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = Config{}.withDefaults().ConnectTimeout
	name := cfg.DBName
	source := migrate.Source{Dialect: migrate.MySQL, Close: func() error { return nil }}
	db, err := pool(cfg, nil, 4, time.Minute)
	if err != nil {
		return nil, err
	}
	is, err := look(ctx, db)
	if hasCode(err, codeNoDatabase) {
		_ = db.Close()
		cfg.DBName = ""
		if db, err = pool(cfg, nil, 1, time.Minute); err != nil {
			return nil, err
		}
		is, err = look(ctx, db)
		if err == nil && create {
			_, err = db.ExecContext(ctx, `CREATE DATABASE IF NOT EXISTS `+quoted(name)+` CHARACTER SET utf8mb4 COLLATE `+is.exact)
		}
		err = errors.Join(err, db.Close())
		if db = nil; err == nil && create {
			cfg.DBName = name
			db, err = pool(cfg, nil, 4, time.Minute)
		}
	}
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return nil, err
	}
	if db != nil {
		source.DB, source.Close = db, db.Close
	}
	source.Stepwise = wayDown{db, guardUndelivered}
	source.Lock = func(ctx context.Context) (func() error, error) { return lockMigrations(ctx, db) }
	source.Files, err = is.layout(false)
	adopted := false
	if err == nil && db != nil {
		if err = db.QueryRowContext(ctx, hasAdoption).Scan(&adopted); err == nil {
			source.Files, err = is.layout(adopted)
		}
	}
	if !adopted {
		source.Layouts = &searchIndexes{db: db, files: source.Files}
	}
	if err == nil && db != nil {
		err = is.ofAdopted(ctx, db, name, &source)
	}
	return migrate.NewSchema(source), err
}

// quoted is a name as SQL writes it.
func quoted(name string) string {
	out := []byte{'`'}
	for i := range len(name) {
		if name[i] == '`' {
			out = append(out, '`')
		}
		out = append(out, name[i])
	}
	return string(append(out, '`'))
}

const countUndelivered = `SELECT (SELECT count(*) FROM v_outbox_event WHERE status NOT IN ('SENT', 'DISCARDED')), (SELECT count(*) FROM t_consume_retry)
 + (SELECT count(*) FROM t_dead_letter WHERE service_side = 'bridge' AND state IN ('OPEN', 'REPLAYING'))`

// guardUndelivered keeps nobody out; see wayDown.
func guardUndelivered(ctx context.Context, tx *sql.Tx) error {
	if err := nobodyLeads(ctx, tx); err != nil {
		return err
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
