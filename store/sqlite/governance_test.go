package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/sqlite"
)

func TestAReplayOfManyDeadLettersTakesSeveralTransactions(t *testing.T) {
	ctx := t.Context()
	var commits int
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "inventory.db"), sqlite.Config{Crash: func(point string) {
		if point == "replay.after_commit" {
			commits++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	items := make([]settle.Item, 1100)
	ids := make([]int64, len(items))
	for i := range items {
		e := &settle.Event{ID: fmt.Sprint("e", i), Type: "order.created", AggregateID: fmt.Sprint("o-", i), Payload: []byte("{}")}
		items[i] = settle.Item{Intent: settle.IntentDie, Class: settle.ClassHandler, Cause: "no stock", Attempt: 10, Record: settle.Record{Event: e, Key: e.AggregateID}}
		ids[i] = int64(i + 1)
	}
	if _, err := s.Inbox().Apply(ctx, settle.Work{Group: "inventory", Items: items}, nil); err != nil {
		t.Fatal(err)
	}
	outcomes, err := s.Governance().Replay(ctx, govern.Act{By: "ann", Reason: "stocked"}, govern.ReplayOptions{}, ids...)
	if err != nil || len(outcomes) != len(ids) || commits != 3 {
		t.Fatalf("Replay gives %d outcomes in %d transactions, %v; want %d in 3", len(outcomes), commits, err, len(ids))
	}
	for _, o := range outcomes {
		if o.Result != "done" {
			t.Fatalf("outcome %+v, want done", o)
		}
	}
	if err := govern.VerifyChain(ctx, s.Governance()); err != nil {
		t.Error(err)
	}
	due, err := s.Inbox().Due(ctx, "inventory", 2000)
	if err != nil || len(due.Items) != len(ids) {
		t.Errorf("%d events are due, %v; want %d", len(due.Items), err, len(ids))
	}
}

// Two stores on one file are what two processes are: they share nothing but
// the files.
func TestTwoProcessesOnOneFileApplyEachEventOnce(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "inventory.db")
	var effects, applied atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		s, err := sqlite.Open(ctx, path, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		wg.Go(func() {
			for n := range 40 {
				items := make([]settle.Item, 4)
				for i := range items {
					e := &settle.Event{ID: fmt.Sprint(n*2 + i), Type: "x", AggregateID: "k", Payload: []byte("{}")}
					items[i] = settle.Item{Attempt: 1, Record: settle.Record{Event: e, Key: "k"}}
				}
				results, err := s.Inbox().Apply(ctx, settle.Work{Group: "inventory", Items: items}, func(context.Context, *sql.Tx, int) error {
					effects.Add(1)
					return nil
				})
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				for _, r := range results {
					if r.Verdict == settle.VerdictApplied {
						applied.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if want := int64(2*39 + 4); effects.Load() != want || applied.Load() != want {
		t.Errorf("%d effects and %d verdicts, want %d of each", effects.Load(), applied.Load(), want)
	}
}
