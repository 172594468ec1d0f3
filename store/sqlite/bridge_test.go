package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

func TestBridge(t *testing.T) { storetest.RunBridge(t, openBridge) }

func TestEveryRuleOfTheBridgeSuiteFailsABrokenStore(t *testing.T) { broken.RunBridge(t, openBridge) }

func openBridge(t testing.TB) storetest.BridgeStore {
	t.Helper()
	clock := &testClock{at: time.Now()}
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "inventory.db"), sqlite.Config{Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return storetest.BridgeStore{Bridge: s.Bridge(), Governance: s.Governance(), Advance: clock.pass}
}

func TestTheWayDownIsRefusedWhileALetterThatNobodyElseHasIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	lease, err := s.Bridge().Lead(t.Context(), "stock", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Bridge().Keep(t.Context(), lease, []bridge.Letter{{Identity: "a", Group: "stock", Record: settle.Record{Raw: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	schema, err := sqlite.Schema(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = schema.Close() }()
	if _, err := schema.Down(t.Context(), 6); !errors.Is(err, migrate.ErrUndelivered) {
		t.Fatalf("Down: %v", err)
	}
	if _, err := s.Governance().Discard(t.Context(), govern.Act{By: "ann", Reason: "x"}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Down(t.Context(), 6); err != nil {
		t.Fatalf("Down: %v", err)
	}
	if _, err := schema.Up(t.Context()); err != nil {
		t.Fatalf("Up: %v", err)
	}
	if found, err := s.Governance().DeadLetters(t.Context(), govern.Filter{State: "any"}); err != nil || len(found) != 0 {
		t.Errorf("dead letters are %+v, %v", found, err)
	}
}

// A group may have dead letters of both kinds: those of Settle's own that
// RabbitMQ has given up on lie at the broker.
func TestALetterOfTheBrokerAndOneOfOurOwnOfTheSameEventAreTwo(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	e := &settle.Event{ID: "1", Type: "x", AggregateID: "k", Payload: []byte("{}")}
	it := settle.Item{Intent: settle.IntentDie, Attempt: 1, Class: settle.ClassHandler, Record: settle.Record{Event: e, Key: "k"}}
	if _, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "inventory", Items: []settle.Item{it}}, nil); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Bridge().Lead(t.Context(), "inventory", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l := bridge.Letter{Identity: "a", Group: "inventory", Record: settle.Record{Event: e, Key: "k", Raw: settle.AppendEnvelope(nil, e)}, To: []bridge.Target{bridge.ToGroup}}
	if _, err := s.Bridge().Keep(t.Context(), lease, []bridge.Letter{l}); err != nil {
		t.Fatal(err)
	}
	states := func(want ...string) {
		t.Helper()
		found, err := s.Governance().DeadLetters(t.Context(), govern.Filter{State: "any"})
		if err != nil || len(found) != 2 || found[0].State != want[0] || found[1].State != want[1] || found[0].Foreign || !found[1].Foreign {
			t.Fatalf("dead letters are %+v, %v; want %v", found, err, want)
		}
	}
	ann := govern.Act{By: "ann", Reason: "x"}
	if _, err := s.Governance().Replay(t.Context(), ann, govern.ReplayOptions{}, 1); err != nil {
		t.Fatal(err)
	}
	states(govern.StateReplaying, govern.StateOpen)
	due, err := s.Inbox().Due(t.Context(), "inventory", 10)
	if err != nil || len(due.Items) != 1 {
		t.Fatalf("Due: %+v, %v", due, err)
	}
	if _, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "inventory", Items: due.Items}, func(context.Context, *sql.Tx, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	states(govern.StateReplayed, govern.StateOpen)
	if _, err := s.Governance().Replay(t.Context(), ann, govern.ReplayOptions{}, 2); err != nil {
		t.Fatal(err)
	}
	states(govern.StateReplayed, govern.StateReplaying)
	if due, err := s.Inbox().Due(t.Context(), "inventory", 10); err != nil || len(due.Items) != 0 {
		t.Fatalf("Due: %+v, %v; want nothing of the broker's letter", due, err)
	}
	if err := s.Bridge().Mark(t.Context(), lease, []bridge.Mark{{ID: 2, Result: bridge.ResultReturned}}); err != nil {
		t.Fatal(err)
	}
	states(govern.StateReplayed, govern.StateReplayed)
}
