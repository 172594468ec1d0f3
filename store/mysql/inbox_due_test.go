package mysql_test

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
	"github.com/settlemq/settle/store/mysql"
)

// Members of a group look at one retry store. What fails at each attempt is
// tried as often as it is counted, by whomever.
func TestAnAttemptIsMadeAndCountedByOneMemberOfAGroup(t *testing.T) {
	t.Parallel()
	const events, attempts = 16, 4
	stores := processes(t, 3)
	for n := range events {
		it := eventOn(fmt.Sprintf("k%02d", n), 1)
		it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
		if _, err := stores[0].Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: []settle.Item{it}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	made := map[string]int{}
	var members sync.WaitGroup
	for _, s := range stores {
		b := memory.New(memory.Config{}) // nothing comes from there
		defer func() { _ = b.Close() }()
		c := consumer.New("g", b, s.Inbox(), consumer.Config{
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
	for dead := 0; dead < events && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if err := stores[0].DB().QueryRow(`SELECT count(*) FROM t_dead_letter`).Scan(&dead); err != nil {
			t.Error(err)
			break
		}
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
	var wrong int
	if err := stores[0].DB().QueryRow(`SELECT count(*) FROM t_dead_letter WHERE attempts <> ?`, attempts).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d dead letters count other attempts, %v", wrong, err)
	}
}

func TestWhatOneMemberWasGivenNoOtherIsUntilItsTimeIsOverOrItLeaves(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	first, second := clocked(t, clock)
	for n := range 4 {
		it := eventOn(fmt.Sprint("k", n%2), n+1)
		it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
		if _, err := first.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: []settle.Item{it}}, nil); err != nil {
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
	a, b := first.Inbox(), second.Inbox()
	old := due(a, 4)
	due(b, 0)
	due(a, 4) // its own are its own
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
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

func clocked(t *testing.T, clock func() time.Time) (first, second *mysql.Store) {
	t.Helper()
	at := mysql.DatabaseForTest(t)
	return mysql.OpenForTest(t, at, mysql.Config{Clock: clock}), mysql.OpenForTest(t, at, mysql.Config{Clock: clock})
}
