package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
)

// producersOnMySQL use database/sql, a statement at a time: the driver has no
// batches.
func producersOnMySQL() []producer {
	const full, lean = migrate.LayoutFull, migrate.LayoutLean
	return []producer{
		{"none", plainTitle, "none", openCounterOnMySQL(full, nil)},
		{"by-hand", byHandTitle, "none", openCounterOnMySQL(lean, insertByHandOnMySQL)},
		{"default", appendTitle, "none", openCounterOnMySQL(full, appendOnMySQL)},
		{"lean", leanTitle, "none", openCounterOnMySQL(lean, appendOnMySQL)},
	}
}

type eventOnMySQL func(ctx context.Context, s *mysql.Store, tx *sql.Tx, n int) error

func appendOnMySQL(ctx context.Context, s *mysql.Store, tx *sql.Tx, n int) error {
	return s.Append(ctx, tx, orderCreated(n))
}

// insertByHandOnMySQL stores the same row without a check of it: what any outbox
// costs at least.
func insertByHandOnMySQL(ctx context.Context, _ *mysql.Store, tx *sql.Tx, n int) error {
	e := orderCreated(n)
	_, err := tx.ExecContext(ctx, logOnMySQL.insert, settle.NewID(), e.AggregateID, e.Payload)
	return err
}

type counterOnMySQL struct {
	db    *sql.DB
	store *mysql.Store
	event eventOnMySQL
}

func openCounterOnMySQL(of migrate.Layout, event eventOnMySQL) func(context.Context, *place) (counter, error) {
	return func(ctx context.Context, p *place) (counter, error) {
		if err := makeSettleOnMySQL(ctx, p.url, of); err != nil {
			return nil, err
		}
		cfg, err := mysqlConfig(p.url)
		if err != nil {
			return nil, err
		}
		db, err := connectorOf(cfg)
		if err != nil {
			return nil, err
		}
		store, err := mysql.Open(ctx, p.url, mysql.Config{MaxConns: 1})
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &counterOnMySQL{db, store, event}, nil
	}
}

func (c *counterOnMySQL) Close() error { return errors.Join(c.store.Close(), c.db.Close()) }

func (c *counterOnMySQL) clerk(ctx context.Context) (clerk, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &clerkOnMySQL{c, conn}, nil
}

type clerkOnMySQL struct {
	*counterOnMySQL
	conn *sql.Conn
}

func (c *clerkOnMySQL) Close() error { return c.conn.Close() }

func (c *clerkOnMySQL) order(ctx context.Context, n int) error {
	tx, err := c.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := c.take(ctx, tx, n); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (c *clerkOnMySQL) take(ctx context.Context, tx *sql.Tx, n int) error {
	if _, err := tx.ExecContext(ctx, shopOnMySQL.order, eventID(n), eventKey(n, keys)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, shopOnMySQL.line, eventID(n)); err != nil || c.event == nil {
		return err
	}
	return c.event(ctx, c.store, tx, n)
}
