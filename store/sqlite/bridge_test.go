package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

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
