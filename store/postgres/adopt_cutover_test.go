package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// oldRelay is a classic one at its best: it claims rows with SKIP LOCKED, sends
// them and marks them, in one transaction.
func (c *classic) oldRelay(b *memory.Broker) (stop func()) {
	c.t.Helper()
	conn, err := pgx.Connect(context.Background(), c.conn.Config().ConnString())
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer conn.Close(context.Background())
		for ctx.Err() == nil {
			if err := sendOld(conn, b); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the old relay: %v", err)
		}
	}
}

func sendOld(conn *pgx.Conn, b *memory.Broker) error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, event_id, aggregate_id, payload::text FROM t_outbox_event WHERE status = 'PENDING' AND next_retry_time <= CURRENT_TIMESTAMP
ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED`)
		if err != nil {
			return err
		}
		var taken []int64
		var id int64
		var event, key, payload string
		_, err = pgx.ForEachRow(rows, []any{&id, &event, &key, &payload}, func() error {
			taken = append(taken, id)
			return b.PublishRaw(settle.DefaultTopic, key, []byte(payload), nil)
		})
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE t_outbox_event SET status = 'SENT', updated_at = CURRENT_TIMESTAMP WHERE id = ANY($1)`, taken)
		}
		time.Sleep(2 * time.Millisecond)
		return err
	})
}

// produce inserts events, one transaction each, some of which stay open for a
// while or are rolled back, until it is stopped. It tells how many were kept.
func (c *classic) produce() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var kept atomic.Int64
	done := make(chan error, 4)
	for w := range 4 {
		conn, err := pgx.Connect(context.Background(), c.conn.Config().ConnString())
		if err != nil {
			c.t.Fatal(err)
		}
		go func() {
			defer conn.Close(context.Background())
			for n := 0; ctx.Err() == nil; n++ {
				err := produceOne(conn, w, n)
				if err != nil && err != errUndo {
					done <- err
					return
				}
				if err == nil {
					kept.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
			done <- nil
		}()
	}
	return func() int {
		cancel()
		for range 4 {
			if err := <-done; err != nil {
				c.t.Errorf("a producer: %v", err)
			}
		}
		return int(kept.Load())
	}
}

var errUndo = fmt.Errorf("undo")

func produceOne(conn *pgx.Conn, w, n int) error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
SELECT 'w-' || $1 || '-' || $2, 'order', 'w-' || $1, 'x', jsonb_build_object('eventId', 'w-' || $1 || '-' || $2, 'eventType', 'x', 'aggregateId', 'w-' || $1, 'payload', jsonb_build_object('n', $2::int)), 'PENDING'`, fmt.Sprint(w), fmt.Sprint(n))
		switch {
		case err != nil:
			return err
		case n%7 == 3:
			return errUndo
		case n%50 == 10:
			time.Sleep(150 * time.Millisecond)
		}
		return nil
	})
}

func TestUnderLoadSettleTakesOverFromAClassicRelayAndGivesBackAndNothingIsLost(t *testing.T) {
	c := newClassic(t, classicTable)
	b := newMemory(t)
	stopProducers := c.produce()
	grows := func(by int) {
		from := len(b.Log(settle.DefaultTopic))
		eventually(t, "events flow", func() (string, bool) { return "", len(b.Log(settle.DefaultTopic)) >= from+by })
	}
	stopOld := c.oldRelay(b)
	grows(200)
	stopOld()
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(b, relay.Config{})
	grows(200)
	if _, err := c.tryAdopt(migrate.AdoptConfig{Again: true}); err == nil {
		t.Error("it was begun anew under a relay that leads")
	}
	r.stop()
	stopOld = c.oldRelay(b) // what Settle had in hand is PENDING and is sent
	grows(200)
	stopOld()
	c.adopt(migrate.AdoptConfig{Again: true})
	r = c.relay(b, relay.Config{})
	grows(200)
	kept := stopProducers()
	c.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	got := map[string]int{}
	for _, m := range b.Log(settle.DefaultTopic) {
		got[m.Event.ID]++
	}
	twice := 0
	for _, n := range got {
		twice += n - 1
	}
	if len(got) != kept {
		t.Errorf("%d of %d events arrived", len(got), kept)
	}
	if twice > 0 {
		t.Errorf("%d events were sent twice although each relay ended cleanly", twice)
	}
}

func TestTwoRelaysAtOnceSendEverythingAndTheOtherOneIsReported(t *testing.T) {
	c := newClassic(t, classicTable)
	b := newMemory(t)
	c.adopt(migrate.AdoptConfig{})
	stopProducers := c.produce()
	stopOld := c.oldRelay(b)
	r := c.relay(b, relay.Config{})
	eventually(t, "the other relay is noticed", func() (string, bool) {
		var n int64
		err := r.store.Pool().QueryRow(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
		return fmt.Sprint(n, err), n > 0
	})
	stopOld()
	kept := stopProducers()
	c.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	got := map[string]bool{}
	for _, m := range b.Log(settle.DefaultTopic) {
		got[m.Event.ID] = true
	}
	if len(got) != kept {
		t.Errorf("%d of %d events arrived", len(got), kept)
	}
}
