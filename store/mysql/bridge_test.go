package mysql_test

import (
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

func TestBridge(t *testing.T) { storetest.RunBridge(t, bridges(t)) }

func TestEveryRuleOfTheBridgeSuiteFailsABrokenStore(t *testing.T) { broken.RunBridge(t, bridges(t)) }

// bridges returns what opens an empty database for each case of a suite.
func bridges(suite testing.TB) func(t testing.TB) storetest.BridgeStore {
	databases := mysql.NewDatabasesForTest(suite)
	return func(t testing.TB) storetest.BridgeStore {
		t.Helper()
		clock := &testClock{at: time.Now()}
		s := mysql.OpenForTest(t, databases.Take(t), mysql.Config{MaxConns: 4, Clock: clock.now})
		return storetest.BridgeStore{Bridge: s.Bridge(), Governance: s.Governance(), Advance: clock.pass}
	}
}
