package postgres_test

import (
	"testing"
	"time"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// more opens one more process on a database.
func more(t *testing.T, at string) func() func() concurrent.LaneStore {
	return func() func() concurrent.LaneStore {
		s := postgres.OpenForTest(t, at, postgres.Config{})
		return func() concurrent.LaneStore { return s.Log() }
	}
}

func TestLanesSpreadOverTheProcessesThatThereAre(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	concurrent.LanesSpread(t, postgres.OpenForTest(t, at, postgres.Config{}).Governance(), more(t, at))
}

func TestKeysStayInOrderWhileTheNumberOfLanesChangesUnderLoadAndALeaderDiesAtTheBarrier(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	s := postgres.OpenForTest(t, at, postgres.Config{MaxConns: 24})
	concurrent.LanesChange(t, written(s), s.Governance(), 8*time.Second, more(t, at))
}
