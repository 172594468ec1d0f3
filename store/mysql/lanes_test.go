package mysql_test

import (
	"os"
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// more opens one more process on a database.
func more(t *testing.T, at string) func() func() concurrent.LaneStore {
	return func() func() concurrent.LaneStore {
		s := mysql.OpenForTest(t, at, mysql.Config{})
		return func() concurrent.LaneStore { return s.Log() }
	}
}

func TestLanesSpreadOverTheProcessesThatThereAre(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("who takes which lane is decided by no store; the plain run shows it on PostgreSQL, set SETTLE_TEST_ALL=1 for MySQL")
	}
	t.Parallel()
	at := mysql.DatabaseForTest(t)
	concurrent.LanesSpread(t, mysql.OpenForTest(t, at, mysql.Config{}).Governance(), more(t, at))
}

func TestKeysStayInOrderWhileTheNumberOfLanesChangesUnderLoadAndALeaderDiesAtTheBarrier(t *testing.T) {
	t.Parallel()
	at := mysql.DatabaseForTest(t)
	s := mysql.OpenForTest(t, at, mysql.Config{MaxConns: 24})
	concurrent.LanesChange(t, written(t, s), s.Governance(), 5*time.Second, more(t, at))
}
