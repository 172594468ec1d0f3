package relay

import (
	"testing"
	"time"
)

// tableWithRetention is a world in which rows come of age at a steady rate, and
// each deletion takes its time.
type tableWithRetention struct {
	*world
	old, perSecond float64
	seen           time.Time
	takes          time.Duration
	// spent is the time of all deletions, calls how many there were.
	spent time.Duration
	calls int
}

func (r *tableWithRetention) ages() {
	r.old += r.now.Sub(r.seen).Seconds() * r.perSecond
	r.seen = r.now
}

// pass lets everything happen for a while, deletions as they are here.
func (r *tableWithRetention) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for end := r.now.Add(d); r.now.Before(end); {
		if len(r.world.calls) == 0 {
			r.now = laterOf(r.now, r.wake)
			r.step(Tick{})
			continue
		}
		c, is := r.world.calls[0].(Retain)
		if !is {
			r.call()
			continue
		}
		if c.Limit > 5000 {
			t.Fatalf("one deletion may handle %d rows", c.Limit)
		}
		r.world.calls = r.world.calls[1:]
		r.now = r.now.Add(r.takes)
		r.ages()
		rows := min(c.Limit, int(r.old))
		r.old -= float64(rows)
		r.spent += r.takes
		r.calls++
		r.step(Retained{Rows: rows})
	}
}

func TestRetentionKeepsUpWithABusyTableAndLeavesSendingTheTime(t *testing.T) {
	w := newWorld(t, Config{KeepFor: time.Hour})
	r := &tableWithRetention{world: w, seen: w.now, old: 500_000, perSecond: 20_000, takes: 15 * time.Millisecond}
	r.pass(t, 2*time.Minute)
	if r.old > 2*20_000 {
		t.Errorf("%.0f rows were left of 20,000/s and a backlog of 500,000", r.old)
	}
	if share := r.spent.Seconds() / 120; share > 0.26 {
		t.Errorf("deletions took %.0f %% of the time", 100*share)
	}
	// At rest it is rare.
	r.old, r.perSecond, r.takes = 0, 0, time.Millisecond
	r.pass(t, 20*time.Second)
	r.calls = 0
	r.pass(t, time.Minute)
	if r.calls > 7 {
		t.Errorf("%d deletions a minute where there is nothing to delete", r.calls)
	}
}

func TestRetentionOfADatabaseThatIsSlowIsNoFaster(t *testing.T) {
	w := newWorld(t, Config{KeepFor: time.Hour})
	r := &tableWithRetention{world: w, seen: w.now, old: 500_000, takes: 2 * time.Second}
	r.pass(t, time.Minute)
	if r.calls < 5 || r.calls > 8 {
		t.Errorf("%d deletions of two seconds each in a minute", r.calls)
	}
	r.takes = 0
	r.calls = 0
	r.pass(t, time.Second)
	if r.calls > 250 {
		t.Errorf("%d deletions a second that take no time", r.calls)
	}
}
