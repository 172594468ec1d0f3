package concurrent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
)

// Attempts lets three members of a group look at one retry store, in which so
// many events fail at each attempt. They are tried as often as it is counted, by
// whomever.
func Attempts(t *testing.T, open Open, events int) {
	const attempts = 4
	all := processes(t, open, 3)
	for n := range events {
		it := parked(Item(fmt.Sprintf("k%02d", n), 1))
		if _, err := all[0].Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: []settle.Item{it}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	made := map[string]int{}
	var members sync.WaitGroup
	for _, p := range all {
		b := memory.New(memory.Config{}) // nothing comes from there
		defer func() { _ = b.Close() }()
		c := consumer.New("g", b, p.Inbox, consumer.Config{
			RetryPoll: time.Millisecond, Retry: settle.Backoff{Base: time.Millisecond, Attempts: attempts}, Concurrency: 2,
			Breaker: consumer.Breaker{DistinctKeys: -1}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		c.Handle("x", func(_ context.Context, _ *sql.Tx, e *settle.Event) error {
			mu.Lock()
			defer mu.Unlock()
			made[e.ID]++
			return errors.New("no stock")
		})
		members.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for all[0].count(t, `SELECT count(*) FROM t_dead_letter`) < events && ctx.Err() == nil && !t.Failed() {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	members.Wait()
	if len(made) != events {
		t.Errorf("%d of %d events were tried", len(made), events)
	}
	for id, n := range made {
		if n != attempts-1 { // one was made when it was parked
			t.Errorf("event %s was tried %d times, want %d", id, n, attempts-1)
		}
	}
	if wrong := all[0].count(t, `SELECT count(*) FROM t_dead_letter WHERE attempts <> ?`, attempts); wrong != 0 {
		t.Errorf("%d dead letters count other attempts", wrong)
	}
}

// testClock is a clock that a test moves.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// GivenToOne checks that what one member was given no other is until its time is
// over or it leaves.
func GivenToOne(t *testing.T, open Open) {
	clock := &testClock{at: time.Now()}
	all := open(t, 2, Options{Clock: clock.now})
	a, b := all[0].Inbox, all[1].Inbox
	for n := range 4 {
		it := parked(Item(fmt.Sprint("k", n%2), n+1))
		if _, err := a.Apply(t.Context(), settle.Work{Group: "g", Items: []settle.Item{it}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	due := func(in settle.Inbox[*sql.Tx], want int) []settle.Item {
		t.Helper()
		d, err := in.Due(t.Context(), "g", 10)
		if err != nil || len(d.Items) != want {
			t.Fatalf("Due gives %d items, %v; want %d", len(d.Items), err, want)
		}
		return d.Items
	}
	old := due(a, 4)
	due(b, 0)
	due(a, 4) // its own are its own
	clock.pass(time.Minute)
	due(b, 4)
	w := settle.Work{Group: "g", Items: old}
	results, err := a.Apply(t.Context(), w, func(context.Context, *sql.Tx, int) error { return errors.New("handled") })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results { // what is behind another is blocked by that
		if r.Verdict != settle.VerdictStored && r.Verdict != settle.VerdictBlocked {
			t.Errorf("who has lost them handles them: %v", r)
		}
	}
	if err := b.Release(t.Context(), "g", "b"); err != nil {
		t.Fatal(err)
	}
	due(a, 4)
}
