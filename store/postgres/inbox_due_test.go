package postgres_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// The clock goes on with every look at it, so that whatever is read apart is
// read at different times; where the item's time falls among those is tried out.
func TestWhatWaitsIsDueOrSaysWhenItIs(t *testing.T) {
	var ticks atomic.Int64
	begin := time.Now().Truncate(time.Second)
	clock := func() time.Time { return begin.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{Clock: clock})
	for n, group := range []string{"a", "b", "c", "d"} {
		it := concurrent.Item(group, 1)
		it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
		it.NextAt = begin.Add(time.Duration(ticks.Load()+60+int64(n)) * time.Millisecond)
		handle := func(context.Context, *sql.Tx, int) error { return nil }
		if rs, err := s.Inbox().Apply(t.Context(), settle.Work{Group: group, Items: []settle.Item{it}}, handle); err != nil || rs[0].Verdict != settle.VerdictParked {
			t.Fatal(rs, err)
		}
		for looks := 0; ; looks++ {
			due, err := s.Inbox().Due(t.Context(), group, 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(due.Items) > 0 {
				if looks == 0 {
					t.Error("it was due before its time could come")
				}
				break
			}
			if due.Next.IsZero() {
				t.Fatalf("group %s: what waits until %v is neither due nor next after %d looks", group, it.NextAt, looks)
			}
		}
	}
}

func TestAMemberIsNoDeathOfItsOwn(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	a := settle.Attendance{Group: "g", Owner: "x", TTL: time.Microsecond, Remember: time.Hour} // it is over before it is answered
	if d, err := s.Inbox().Attend(t.Context(), a); err != nil || d.Deaths != 0 {
		t.Errorf("it is told of %+v, %v", d, err)
	}
}
