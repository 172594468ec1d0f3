package concurrent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

const outcomeOf = `SELECT coalesce((SELECT status FROM t_message_consume_log WHERE consumer_group = 'g' AND event_id = '%s'), 'none')`

// Outcomes checks what the database says of an event for each outcome that a
// handler can have.
func Outcomes(t *testing.T, open Open) {
	p := processes(t, open, 1)[0]
	event := func(key, typed string) *settle.Event {
		e := Item(key, 1).Record.Event
		e.Type = typed
		return e
	}
	events := []*settle.Event{event("a", "applied"), event("r", "rejected"), event("i", "unknown"), event("f", "retried"), event("d", "refused"), event("p", "panics"), event("a", "applied")}
	var tries atomic.Int32
	write := func(err error) func(context.Context, *sql.Tx, *settle.Event) error {
		return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			return errors.Join(p.WriteEffect(ctx, tx, e.ID), err)
		}
	}
	r := p.consume(t, events, consumer.Config{}, 3, len(events), func(c *consumer.Consumer[*sql.Tx]) {
		c.Handle("applied", write(nil))
		c.Handle("rejected", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if err := p.WriteEffect(ctx, tx, e.ID); err != nil {
				return err
			}
			return settle.Reject("no stock")
		})
		c.Handle("retried", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if tries.Add(1) < 3 {
				return write(errors.New("not yet"))(ctx, tx, e)
			}
			return p.WriteEffect(ctx, tx, e.ID)
		})
		c.Handle("refused", func(context.Context, *sql.Tx, *settle.Event) error {
			return settle.Permanent(errors.New("no such order"))
		})
		c.Handle("panics", func(context.Context, *sql.Tx, *settle.Event) error { panic("a bug") })
	}, func(s consumer.Stats) int { return int(s.Applied + s.Rejected + s.Duplicate + s.Ignored + s.Dead) })
	for id, want := range map[string]string{"a-001": "APPLIED", "r-001": "REJECTED", "i-001": "none", "f-001": "APPLIED", "d-001": "DEAD", "p-001": "DEAD"} {
		if got := text(t, p.Reader, fmt.Sprintf(outcomeOf, id)); got != want {
			t.Errorf("%s is %s in the log, want %s", id, got, want)
		}
	}
	for id, want := range map[string]int{"a-001": 1, "r-001": 1, "i-001": 0, "f-001": 1, "d-001": 0, "p-001": 0} {
		if got := p.count(t, `SELECT count(*) FROM t_effect WHERE row_id = ?`, id); got != want {
			t.Errorf("%s has %d effects, want %d", id, got, want)
		}
	}
	if s := r.Stats; s.Applied != 2 || s.Rejected != 1 || s.Duplicate != 1 || s.Ignored != 1 || s.Dead != 2 || tries.Load() != 3 {
		t.Errorf("after %d tries stats are %+v", tries.Load(), s)
	}
}

// OpenBreaker checks that while what a handler depends on is away nothing is
// written down as an attempt, and that everything takes effect once it is back.
func OpenBreaker(t *testing.T, open Open) {
	p := processes(t, open, 1)[0]
	var events []*settle.Event
	for k := range 4 {
		for n := 1; n <= 3; n++ {
			events = append(events, Item(string(rune('a'+k)), n).Record.Event)
		}
	}
	var calls atomic.Int32
	r := p.consume(t, events, consumer.Config{Breaker: consumer.Breaker{Failures: 2, Wait: 5 * time.Millisecond, MaxWait: 10 * time.Millisecond}}, 0, len(events), func(c *consumer.Consumer[*sql.Tx]) {
		c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if err := p.WriteEffect(ctx, tx, e.ID); err != nil {
				return err
			}
			if calls.Add(1) <= 10 {
				return settle.Unavailable(errors.New("the carrier is away"))
			}
			return nil
		})
	}, func(s consumer.Stats) int { return int(s.Applied) })
	r.NobodysFault(t, p)
	WantOnceInOrder(t, p.Reader, len(events))
	if n := p.count(t, `SELECT count(*) FROM t_message_consume_log WHERE status = 'APPLIED' AND attempts = 1`); n != len(events) || r.Stats.Retried != 0 {
		t.Errorf("%d of %d events are applied at their first attempt, %d were tried again", n, len(events), r.Stats.Retried)
	}
}

func text(t *testing.T, db *sql.DB, query string) (got string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return got
}
