package relay

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestTheLaneOfAKeyIsWhatADatabaseComputesFromItsMD5(t *testing.T) {
	// SELECT ('x' || substr(md5(key), 1, 8))::bit(32)::bigint % lanes
	for _, c := range []struct {
		key         string
		lanes, want int
	}{{"order-1", 1, 0}, {"order-1", 4, 1}, {"order-2", 4, 1}, {"order-3", 4, 3}, {"", 4, 1}, {"订单", 7, 6}} {
		if got := LaneOf(c.key, c.lanes); got != c.want {
			t.Errorf("LaneOf(%q, %d) = %d, want %d", c.key, c.lanes, got, c.want)
		}
	}
	counts := make([]int, 4)
	for i := range 4000 {
		counts[LaneOf(fmt.Sprint("k", i), 4)]++
	}
	for i, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("lane %d has %d of 4000 keys", i, n)
		}
	}
}

// elsewhere makes a row one of another lane.
func (s *fakeStore) elsewhere(r *Row) { r.Elsewhere, r.Event = true, &settle.Event{ID: r.Event.ID} }

func TestARowOfAnotherLaneIsDoneWhenItIsSeen(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.store.elsewhere(w.store.add("other", "a"))
	late := w.store.allocate("other", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.store.elsewhere(&w.store.rows[late].row)
	w.store.rows[late].visible = true
	w.store.elsewhere(w.store.add("other", "a"))
	w.run(3 * time.Second)
	if got := w.sent(); got != "[e1 e4]" {
		t.Errorf("sent %s, want its own two", got)
	}
	r := w.store.check.Readers[0]
	if r.Cursor != 5 || r.CursorEvent != "e5" || len(r.Open) != 0 {
		t.Errorf("checkpoint says %+v, want all five ids seen", r)
	}
}

func TestALaneReadsUpToItsBarrierAndEndsWithALastCheckpoint(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.run(time.Second)
	w.store.add("k", "a")
	open := w.store.allocate("k", "a")
	w.store.allocate("k", "a") // the barrier itself is nobody's row any more
	w.store.control(func(c *Controls) { c.Divided, c.Barrier = true, 4 })
	w.store.add("k", "a")
	w.run(time.Second)
	if w.halted == nil || !errors.Is(w.halted.Err, ErrLaneEnded) {
		t.Fatalf("the lane ends with %+v", w.halted)
	}
	r := w.store.check.Readers[0]
	if r.Cursor < 4 || fmt.Sprint(r.Open[:1]) != fmt.Sprint([]int64{open}) {
		t.Errorf("the last checkpoint says %+v", r)
	}
	ended := slices.ContainsFunc(w.log, func(c Command) bool {
		r, ok := c.(Resign)
		return ok && r.Lease.Ended
	})
	if !ended {
		t.Error("the store is not told that the lane has ended")
	}
}

func TestALaneThatIsBeyondItsBarrierEndsWhereItIsAndSendsNoMore(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 1})
	w.store.add("k", "a")
	w.run(time.Second)
	for range 3 {
		w.store.add("k", "a")
	}
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) != 1 {
		t.Fatalf("%d batches in flight", len(w.pubs))
	}
	w.store.control(func(c *Controls) { c.Divided, c.Barrier = true, 1 })
	w.now = w.now.Add(controlsEvery)
	w.step(Tick{})
	w.callAll()
	if w.halted != nil {
		t.Fatal("it ended while the broker had not answered")
	}
	w.run(time.Second)
	w.wantSent(t, "e1", "e2")
	if w.halted == nil || !errors.Is(w.halted.Err, ErrLaneEnded) {
		t.Fatalf("the lane ends with %+v", w.halted)
	}
	if r := w.store.check.Readers[0]; len(r.Open) == 0 || r.Open[0] != 3 {
		t.Errorf("what was not sent is handed over as %+v", r)
	}
}

func TestAnEndWhoseAnswerIsLostIsMadeSureOf(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.control(func(c *Controls) { c.Divided = true })
	w.run(100 * time.Millisecond)
	w.start()
	for w.halted == nil {
		if _, ok := w.calls[0].(Resign); ok {
			break
		}
		w.call()
	}
	lost := w.calls[0]
	w.calls = nil
	w.step(Failed{Command: lost, Err: errors.New("connection lost")})
	if w.halted != nil {
		t.Fatalf("it ended with %v and does not know whether the lane has", w.halted.Err)
	}
	w.run(w.m.cfg.LeaseTTL)
	if w.halted == nil || !errors.Is(w.halted.Err, ErrLaneEnded) {
		t.Fatalf("the lane ends with %+v", w.halted)
	}
}

func TestALaneThatMayNotBeginYetAsksAgainSoonAndAnEndedOneNeverDoes(t *testing.T) {
	m := NewMachine(Config{Owner: "me", Lane: 3})
	now := time.Unix(1_800_000_000, 0)
	m.Step(now, Tick{})
	var wake time.Time
	for _, c := range m.Step(now, Elected{Lease{Lane: 3, Early: true}}) {
		if c, ok := c.(WaitUntil); ok {
			wake = c.At
		}
	}
	if wait := wake.Sub(now); wait <= 0 || wait > 200*time.Millisecond {
		t.Errorf("it asks again after %v", wait)
	}
	m.Step(wake, Tick{})
	out := m.Step(wake, Elected{Lease{Lane: 3, Ended: true}})
	if halt, ok := out[len(out)-1].(Halt); !ok || !errors.Is(halt.Err, ErrLaneEnded) {
		t.Errorf("told that the lane has ended it answers %+v", out)
	}
}
