package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

const noOutbox = "none"

// producer is a business transaction, two rows of an order, and an event with
// it or none. All use pgx, eight connections, the same rows.
type producer struct {
	name, title string
	// script is run after Settle's tables are there; event appends one.
	script string
	event  func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error
}

func producerKinds() []producer {
	return []producer{
		{noOutbox, "without an outbox", ``, func(context.Context, *postgres.Store, pgx.Tx, int) error { return nil }},
		{"default", "with Settle's outbox", ``, appendEvent},
		{"lean", "with Settle's outbox, lean", `DROP INDEX i_outbox_aggregate, i_outbox_biz, i_outbox_trace`, appendEvent},
	}
}

func appendEvent(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
	return s.Pgx().Append(ctx, tx, &settle.Event{ID: eventID(n), Type: eventType, AggregateType: "order", AggregateID: eventKey(n, keys), Payload: payload(n)})
}

const (
	businessTables = `CREATE TABLE orders (id bigserial PRIMARY KEY, order_id text NOT NULL UNIQUE, customer text NOT NULL, amount numeric(18,2) NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE order_line (id bigserial PRIMARY KEY, order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL)`
	insertOrder = `INSERT INTO orders (order_id, customer, amount, status) VALUES ($1, $2, 199.00, 'CREATED')`
	insertLine  = `INSERT INTO order_line (order_id, sku, quantity) VALUES ($1, 'sku-1', 2)`
)

const producing = 8

// produce runs so many business transactions and returns how many a second.
func (p producer) produce(ctx context.Context, s *server, transactions int) (rate float64, err error) {
	db, err := s.create(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	store, err := postgres.Open(ctx, db.url, postgres.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := db.conn.Exec(ctx, businessTables+`; `+p.script); err != nil {
		return 0, err
	}
	warm := transactions / 10
	if err := p.run(ctx, db.url, store, 0, warm); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := p.run(ctx, db.url, store, warm, transactions); err != nil {
		return 0, err
	}
	return float64(transactions-warm) / time.Since(began).Seconds(), nil
}

func (p producer) run(ctx context.Context, url string, store *postgres.Store, lo, hi int) error {
	var group sync.WaitGroup
	errs := make([]error, producing)
	for i := range producing {
		group.Go(func() {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				errs[i] = err
				return
			}
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
			for n := lo + i; n < hi && errs[i] == nil; n += producing {
				errs[i] = p.one(ctx, store, conn, n)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (p producer) one(ctx context.Context, store *postgres.Store, conn *pgx.Conn, n int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, insertOrder, eventID(n), eventKey(n, keys)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertLine, eventID(n)); err != nil {
		return err
	}
	if err := p.event(ctx, store, tx, n); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
