package settletest_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/settletest"
)

// giveUp makes a shop in which no order can be counted, and giving up on one is
// written down once.
func giveUp(t *testing.T, dir string, crash func(string)) shop {
	s := openShop(t, dir, crash)
	inTx(t, s.db, func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS given_up (order_id TEXT NOT NULL)`)
		return err
	})
	s.count = consumer.New("counting", s.broker, s.rec, consumer.Config{Topics: []string{settle.DefaultTopic}, Crash: crash, RetryPoll: 10 * time.Millisecond})
	s.count.Handle("order.created", func(context.Context, *sql.Tx, *settle.Event) error {
		return settle.Permanent(errors.New("no such article"))
	})
	s.count.Handle("order.noted", func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	s.count.Compensate("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO given_up SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM given_up WHERE order_id = ?1)`, e.AggregateID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, settle.Reject("moved on: it is given up already"))
		}
		return nil
	})
	s.relay = relay.New(s.db.Log(), s.broker, relay.Config{Crash: crash, LeaseTTL: 500 * time.Millisecond})
	return s
}

func (s shop) append(t *testing.T, events ...*settle.Event) {
	t.Helper()
	inTx(t, s.db, func(tx *sql.Tx) error { return s.db.Append(t.Context(), tx, events...) })
}

// compensate gives up on every open dead letter and returns how many there were.
func (s shop) compensate(t *testing.T) int {
	t.Helper()
	letters, err := s.db.Governance().DeadLetters(t.Context(), govern.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		out, err := s.db.Governance().Compensate(t.Context(), govern.Act{By: "ann", Reason: "never stocked"}, l.ID)
		if err != nil || out[0].Result != "done" {
			t.Fatalf("compensate %d: %+v, %v", l.ID, out, err)
		}
	}
	return len(letters)
}

// wantGivenUp checks how often an order was given up, and its letters' states.
func (s shop) wantGivenUp(t *testing.T, times int, states ...string) {
	t.Helper()
	var n int
	if err := s.db.DB().QueryRow(`SELECT count(*) FROM given_up`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	letters, err := s.db.Governance().DeadLetters(t.Context(), govern.Filter{State: "any"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range letters {
		got = append(got, l.State)
	}
	if n != times || !slices.Equal(got, states) {
		t.Errorf("given up %d times, letters are %v; want %d and %v", n, got, times, states)
	}
}

const beforeCommit, afterCommit = "consume.in_handler", "consume.after_commit"

// dyingIn lets a process die at a point of the compensation of an order.
func dyingIn(t *testing.T, dir, point string) {
	settletest.Crash(t, dir, point, 1, func(crash func(string)) {
		compensating := false
		s := giveUp(t, dir, func(at string) {
			// Only the compensation succeeds, and of the commits its own is meant.
			compensating = compensating || at == beforeCommit
			if compensating {
				crash(at)
			}
		})
		s.append(t, order("o-1"))
		settletest.Run(t, s.relay, s.count)
		s.rec.Await(t, "event-of-o-1", "counting")
		s.compensate(t)
		select {}
	})
}

// secondTime lets the order be given up again, for another event.
func secondTime(t *testing.T, s shop) {
	stop := settletest.Run(t, s.relay, s.count)
	again, behind := order("o-1"), order("o-1")
	again.ID, behind.ID, behind.Type = "again", "behind", "order.noted"
	s.append(t, again, behind)
	s.rec.Await(t, "again", "counting")
	if n := s.compensate(t); n != 1 {
		t.Errorf("%d letters are open, want that of the second event", n)
	}
	s.rec.Await(t, "behind", "counting")
	stop()
	s.wantGivenUp(t, 1, govern.StateCompensated, govern.StateCompensated)
	steps, err := s.db.Governance().Trail(t.Context(), "again")
	if err != nil || len(steps) == 0 || steps[len(steps)-1].Note != "by ann: never stocked; moved on: it is given up already" {
		t.Errorf("the trail of the second is %+v, %v; want it to end with what was found", steps, err)
	}
}

func TestACompensationWhoseProcessDiesIsDoneOnceByTheNext(t *testing.T) {
	dir := settletest.Dir(t)
	dyingIn(t, dir, beforeCommit)
	s := giveUp(t, dir, nil)
	s.wantGivenUp(t, 0, govern.StateCompensating)
	secondTime(t, s)
}

func TestACompensationThatIsDoneIsNotDoneAgainAndASecondOneFindsThat(t *testing.T) {
	dir := settletest.Dir(t)
	dyingIn(t, dir, afterCommit)
	s := giveUp(t, dir, nil)
	s.wantGivenUp(t, 1, govern.StateCompensated)
	secondTime(t, s)
}
