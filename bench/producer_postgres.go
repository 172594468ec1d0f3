package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// producersOnPostgres use pgx, a statement at a time or all in one batch.
func producersOnPostgres() []producer {
	const full, lean = migrate.LayoutFull, migrate.LayoutLean
	return []producer{
		{"none", plainTitle, "none", openCounterOnPostgres(full, orderByCalls(nil))},
		{"by-hand", byHandTitle, "none", openCounterOnPostgres(lean, orderByCalls(insertByHandOnPostgres))},
		{"default", appendTitle, "none", openCounterOnPostgres(full, orderByCalls(appendOnPostgres))},
		{"lean", leanTitle, "none", openCounterOnPostgres(lean, orderByCalls(appendOnPostgres))},
		{"batch-none", "one batch, no outbox", "batch-none", openCounterOnPostgres(full, orderByBatch(nil))},
		{"batch-by-hand", byHandTitle, "batch-none", openCounterOnPostgres(lean, orderByBatch(queueByHand))},
		{"batch-default", "and its event: Queue", "batch-none", openCounterOnPostgres(full, orderByBatch(queueEvent))},
		{"batch-lean", "and its event: Queue, lean", "batch-none", openCounterOnPostgres(lean, orderByBatch(queueEvent))},
	}
}

func appendOnPostgres(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
	return s.Pgx().Append(ctx, tx, orderCreated(n))
}

func queueEvent(s *postgres.Store, b *pgx.Batch, n int) error {
	return s.Pgx().Queue(b, orderCreated(n))
}

const insertEventPostgres = insertLogOnPostgres + `VALUES ($1, '` + eventType + `', 'order', $2, clock_timestamp(), $3)`

// insertByHandOnPostgres stores the same row without a check of it: what any
// outbox costs at least.
func insertByHandOnPostgres(ctx context.Context, _ *postgres.Store, tx pgx.Tx, n int) error {
	e := orderCreated(n)
	_, err := tx.Exec(ctx, insertEventPostgres, settle.NewID(), e.AggregateID, e.Payload)
	return err
}

func queueByHand(_ *postgres.Store, b *pgx.Batch, n int) error {
	e := orderCreated(n)
	b.Queue(insertEventPostgres, settle.NewID(), e.AggregateID, e.Payload)
	return nil
}

// orderOnPostgres stores an order in a transaction.
type orderOnPostgres func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error

// orderByCalls waits for the answer to each statement.
func orderByCalls(event orderOnPostgres) orderOnPostgres {
	return func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
		if _, err := tx.Exec(ctx, shopOnPostgres.order, eventID(n), eventKey(n, keys)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, shopOnPostgres.line, eventID(n)); err != nil || event == nil {
			return err
		}
		return event(ctx, s, tx, n)
	}
}

// orderByBatch sends all statements at once.
func orderByBatch(event func(s *postgres.Store, b *pgx.Batch, n int) error) orderOnPostgres {
	return func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
		var b pgx.Batch
		b.Queue(shopOnPostgres.order, eventID(n), eventKey(n, keys))
		b.Queue(shopOnPostgres.line, eventID(n))
		if event != nil {
			if err := event(s, &b, n); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, &b).Close()
	}
}

type counterOnPostgres struct {
	at    string
	store *postgres.Store
	take  orderOnPostgres
}

func openCounterOnPostgres(of migrate.Layout, take orderOnPostgres) func(context.Context, *place) (counter, error) {
	return func(ctx context.Context, p *place) (counter, error) {
		if err := makeSettleOnPostgres(ctx, p.url, of); err != nil {
			return nil, err
		}
		store, err := postgres.Open(ctx, p.url, postgres.Config{MaxConns: 1})
		if err != nil {
			return nil, err
		}
		return &counterOnPostgres{p.url, store, take}, nil
	}
}

func (c *counterOnPostgres) Close() error { return c.store.Close() }

func (c *counterOnPostgres) clerk(ctx context.Context) (clerk, error) {
	conn, err := pgx.Connect(ctx, c.at)
	if err != nil {
		return nil, err
	}
	return &clerkOnPostgres{c, conn}, nil
}

type clerkOnPostgres struct {
	*counterOnPostgres
	conn *pgx.Conn
}

func (c *clerkOnPostgres) Close() error { return c.conn.Close(context.Background()) }

func (c *clerkOnPostgres) order(ctx context.Context, n int) error {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := c.take(ctx, c.store, tx, n); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}
