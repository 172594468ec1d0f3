package postgres_test

import (
	"testing"
	"time"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

func TestBridge(t *testing.T) { storetest.RunBridge(t, bridges(t)) }

func TestEveryRuleOfTheBridgeSuiteFailsABrokenStore(t *testing.T) { broken.RunBridge(t, bridges(t)) }

// bridges returns what opens an empty schema for each case of a suite.
func bridges(suite testing.TB) func(t testing.TB) storetest.BridgeStore {
	schemas := postgres.NewSchemasForTest(suite)
	return func(t testing.TB) storetest.BridgeStore {
		t.Helper()
		clock := &testClock{at: time.Now()}
		s := postgres.OpenForTest(t, schemas.Take(t)+"&synchronous_commit=off", postgres.Config{MaxConns: 4, Clock: clock.now})
		return storetest.BridgeStore{Bridge: s.Bridge(), Governance: s.Governance(), Advance: clock.pass}
	}
}
