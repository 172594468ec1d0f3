package sqlite_test

import (
	"context"
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
