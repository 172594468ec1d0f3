package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// producer is a business transaction, two rows of an order, and an event with
// it or none. All use pgx, eight connections, the same rows. What a business
// does with two statements it does with three then, so each is compared with
// the one that talks to the database in the same way.
type producer struct {
	name, title string
	// than names the one without an outbox that it is compared with.
	than   string
	layout migrate.Layout
	order  func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error
}

func producerKinds() []producer {
	const full, lean = migrate.LayoutFull, migrate.LayoutLean
	return []producer{
		{"none", "a statement at a time, no outbox", "none", full, orderByCalls(nil)},
		{"by-hand", "and its event: INSERT by hand, lean", "none", lean, orderByCalls(insertByHand)},
		{"default", "and its event: Append", "none", full, orderByCalls(appendEvent)},
		{"lean", "and its event: Append, lean", "none", lean, orderByCalls(appendEvent)},
		{"batch-none", "one batch, no outbox", "batch-none", full, orderByBatch(nil)},
		{"batch-by-hand", "and its event: INSERT by hand, lean", "batch-none", lean, orderByBatch(queueByHand)},
		{"batch-default", "and its event: Queue", "batch-none", full, orderByBatch(queueEvent)},
		{"batch-lean", "and its event: Queue, lean", "batch-none", lean, orderByBatch(queueEvent)},
	}
}

// orderCreated is the event of an order. Append gives it its id.
func orderCreated(n int) *settle.Event {
	return &settle.Event{Type: eventType, AggregateType: "order", AggregateID: eventKey(n, keys), Payload: payload(n)}
}

func appendEvent(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
	return s.Pgx().Append(ctx, tx, orderCreated(n))
}

func queueEvent(s *postgres.Store, b *pgx.Batch, n int) error {
	return s.Pgx().Queue(b, orderCreated(n))
}

// insertByHand stores the same row without a check of it: what any outbox costs
// at least.
func insertByHand(ctx context.Context, _ *postgres.Store, tx pgx.Tx, n int) error {
	e := orderCreated(n)
	_, err := tx.Exec(ctx, insertEvent, settle.NewID(), e.AggregateID, e.Payload)
	return err
}

func queueByHand(_ *postgres.Store, b *pgx.Batch, n int) error {
	e := orderCreated(n)
	b.Queue(insertEvent, settle.NewID(), e.AggregateID, e.Payload)
	return nil
}

// orderByCalls waits for the answer to each statement.
func orderByCalls(event func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error) func(context.Context, *postgres.Store, pgx.Tx, int) error {
	return func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
		if _, err := tx.Exec(ctx, insertOrder, eventID(n), eventKey(n, keys)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertLine, eventID(n)); err != nil || event == nil {
			return err
		}
		return event(ctx, s, tx, n)
	}
}

// orderByBatch sends all statements at once.
func orderByBatch(event func(s *postgres.Store, b *pgx.Batch, n int) error) func(context.Context, *postgres.Store, pgx.Tx, int) error {
	return func(ctx context.Context, s *postgres.Store, tx pgx.Tx, n int) error {
		var b pgx.Batch
		b.Queue(insertOrder, eventID(n), eventKey(n, keys))
		b.Queue(insertLine, eventID(n))
		if event != nil {
			if err := event(s, &b, n); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, &b).Close()
	}
}

const (
	businessTables = `CREATE TABLE orders (id bigserial PRIMARY KEY, order_id text NOT NULL UNIQUE, customer text NOT NULL, amount numeric(18,2) NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE order_line (id bigserial PRIMARY KEY, order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL)`
	insertOrder = `INSERT INTO orders (order_id, customer, amount, status) VALUES ($1, $2, 199.00, 'CREATED')`
	insertLine  = `INSERT INTO order_line (order_id, sku, quantity) VALUES ($1, 'sku-1', 2)`
	insertEvent = insertLog + `VALUES ($1, '` + eventType + `', 'order', $2, clock_timestamp(), $3)`
)

const producing = 8

// stall is a producer with a schema of its own.
type stall struct {
	producer
	db    *database
	store *postgres.Store
	next  int // number of the next order
	rates []float64
}

func (p producer) open(ctx context.Context, s *server, delay time.Duration) (_ *stall, err error) {
	t := &stall{producer: p}
	if t.db, err = s.create(ctx, delay); err != nil {
		return nil, err
	}
	if err = makeSettle(ctx, t.db.url, p.layout); err != nil {
		return nil, errors.Join(err, t.db.drop())
	}
	if t.store, err = postgres.Open(ctx, t.db.url, postgres.Config{MaxConns: 1}); err != nil {
		return nil, errors.Join(err, t.db.drop())
	}
	if _, err = t.db.conn.Exec(ctx, businessTables); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *stall) close() error { return errors.Join(t.store.Close(), t.db.drop()) }

// produce runs so many business transactions and notes how many a second. Its
// connections are made, and have prepared their statements, before.
func (t *stall) produce(ctx context.Context, transactions int) error {
	var conns [producing]*pgx.Conn
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx))
			}
		}
	}()
	for i := range conns {
		conn, err := pgx.Connect(ctx, t.db.url)
		if err != nil {
			return err
		}
		conns[i] = conn
	}
	if err := t.run(ctx, conns[:], 5*producing); err != nil {
		return err
	}
	began := time.Now()
	err := t.run(ctx, conns[:], transactions)
	t.rates = append(t.rates, float64(transactions)/time.Since(began).Seconds())
	return err
}

func (t *stall) run(ctx context.Context, conns []*pgx.Conn, transactions int) error {
	var group sync.WaitGroup
	errs := make([]error, len(conns))
	lo, hi := t.next, t.next+transactions
	t.next = hi
	for i, conn := range conns {
		group.Go(func() {
			for n := lo + i; n < hi && errs[i] == nil; n += len(conns) {
				errs[i] = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return t.order(ctx, t.store, tx, n) })
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// turns is how often the producers take turns: each run is short, and is
// compared with the one beside it.
const turns = 20

// producers measures all kinds, each commit taking longer by delay.
func producers(ctx context.Context, s *server, transactions int, delay time.Duration) (all []*stall, err error) {
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.close())
		}
	}()
	for _, p := range producerKinds() {
		t, err := p.open(ctx, s, delay)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	for round := range turns {
		for i := range all {
			t := all[(i+round)%len(all)]
			if err := t.produce(ctx, max(20*producing, transactions/turns)); err != nil {
				return all, fmt.Errorf("producer %s: %w", t.name, err)
			}
		}
	}
	return all, nil
}
