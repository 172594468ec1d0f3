package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// LaneCases returns every rule of a table that several relays may read at once.
// Each wants a database of its own, whose Governance is a govern.Divider and
// whose stores are relay.Lanes.
func LaneCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a change of the number of lanes is told to those that read", laneChangeTold[Tx]},
		{"a lane begins when all before it have ended, and not earlier", laneWaits[Tx]},
		{"a lane that has ended is never led again", laneEnds[Tx]},
		{"a lane sees every id, and the events of its own keys only", laneSees[Tx]},
		{"a page of a lane is bounded by its own rows and says that it is cut", lanePage[Tx]},
		{"what was not done when lanes ended is open for those that follow, and what was done is not", laneHandsOver[Tx]},
		{"a lane finds parked, delayed and late rows of its own keys only", laneSides[Tx]},
		{"an event is sent when the lane of its key says so", laneStatus[Tx]},
		{"nothing is deleted that another lane has not seen", laneRetains[Tx]},
		{"an id that one lane has given up is late for the lane of its key, unless that has dealt with it", laneLate[Tx]},
	}
}

// RunLanes checks every rule of lanes, each on a database that open makes and t
// cleans up.
func RunLanes[Tx any](t *testing.T, open func(t testing.TB) OutboxStore[Tx]) {
	RunLanesExcept(t, nil, open)
}

// RunLanesExcept is to RunLanes what RunOutboxExcept is to RunOutbox.
func RunLanesExcept[Tx any](t *testing.T, except map[string]string, open func(t testing.TB) OutboxStore[Tx]) {
	runExcept(t, LaneCases[Tx](), except, open)
}

// lanes is a table that lanes read: of each its store and its lease.
type lanes[Tx any] struct {
	*outbox[Tx]
	all     []relay.Lane
	stores  []relay.Store
	leases  []relay.Lease
	numbers []int64
}

func (o *outbox[Tx]) order(n int) {
	o.Helper()
	if _, err := o.Governance.(govern.Divider).Divide(o.ctx, govern.Act{By: "a person", Reason: "a test"}, n); err != nil {
		o.Fatalf("Divide(%d): %v", n, err)
	}
}

// living returns the lanes that may have something to do.
func (o *outbox[Tx]) living() []relay.Lane {
	o.Helper()
	all, _, err := o.Standby.(relay.Lanes).Lanes(o.ctx, "a crew", time.Minute)
	if err != nil {
		o.Fatalf("Lanes: %v", err)
	}
	return all
}

// end ends the lane that o leads.
func (o *outbox[Tx]) end() {
	o.Helper()
	o.lease.Ended = true
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		o.Fatalf("Resign for ever: %v", err)
	}
}

// divided is a table that two lanes read, of which both have a leader.
func divided[Tx any](t testing.TB, s OutboxStore[Tx]) *lanes[Tx] {
	o := leading(t, s)
	o.order(2)
	o.end()
	return o.followed()
}

// followed has the lanes led that follow those which have ended.
func (o *outbox[Tx]) followed() *lanes[Tx] {
	o.Helper()
	l := &lanes[Tx]{outbox: o, all: o.living(), stores: []relay.Store{o.Store, o.Standby}}
	for i, lane := range l.all {
		lease, err := l.stores[i].Lead(o.ctx, fmt.Sprint("leader of ", lane.Number), lane.Number, time.Hour)
		if err != nil || !lease.Held {
			o.Fatalf("Lead lane %d: %+v, %v; want the lease", lane.Number, lease, err)
		}
		l.leases, l.numbers = append(l.leases, lease), append(l.numbers, 100)
	}
	return l
}

// key returns a key of a lane of two.
func key(lane, n int) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("key-%d-%d", n, i); relay.LaneOf(k, 2) == lane {
			return k
		}
	}
}

// put appends events, each named by the lane of its key and a letter, as 0a.
func (l *lanes[Tx]) put(ids ...string) {
	l.Helper()
	for i, id := range ids {
		l.append(event(id, key(int(id[0]-'0'), i)))
	}
}

func (l *lanes[Tx]) read(lane int, q relay.PollQuery) relay.Page {
	l.Helper()
	if q.MaxRows == 0 {
		q.MaxRows, q.MaxBytes = 100, 1<<20
	}
	p, err := l.stores[lane].Poll(l.ctx, q)
	if err != nil {
		l.Fatalf("Poll of lane %d: %v", lane, err)
	}
	return p
}

// seen writes a page as the ids of its own events, and a dot for another's.
func seen(p relay.Page) string {
	var b strings.Builder
	for _, r := range p.Rows {
		if r.Elsewhere {
			b.WriteString(" .")
			continue
		}
		b.WriteString(" " + r.Event.ID)
	}
	return strings.TrimSpace(b.String())
}

func (l *lanes[Tx]) commit(lane int, f relay.Flush, readers ...relay.Reader) {
	l.Helper()
	l.numbers[lane]++
	f.Checkpoint = relay.Checkpoint{Number: l.numbers[lane], Readers: readers}
	if err := l.stores[lane].Commit(l.ctx, l.leases[lane], f); err != nil {
		l.Fatalf("Commit of lane %d: %v", lane, err)
	}
}

// rowsOf returns the rows of each lane.
func (l *lanes[Tx]) rowsOf(lane int) (own []relay.Row) {
	for _, r := range l.read(lane, relay.PollQuery{}).Rows {
		if !r.Elsewhere {
			own = append(own, r)
		}
	}
	return own
}

func (l *lanes[Tx]) loadOf(lane int) relay.State {
	l.Helper()
	st, err := l.stores[lane].Load(l.ctx, l.leases[lane])
	if err != nil {
		l.Fatalf("Load of lane %d: %v", lane, err)
	}
	return st
}

func laneChangeTold[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.appendKeys("ab")
	o.flush(2, relay.Flush{})
	before := o.poll(relay.PollQuery{}).Controls
	o.order(4)
	if now := o.poll(relay.PollQuery{}).Controls; now == before {
		t.Error("the version of the controls is as it was")
	}
	ctl, err := o.Store.Controls(o.ctx)
	if err != nil || !ctl.Divided || ctl.Barrier != 2 {
		t.Errorf("controls say divided %v at %d (%v), want a barrier at the highest id read", ctl.Divided, ctl.Barrier, err)
	}
	if st := o.load(); !st.Controls.Divided {
		t.Error("a new leader is not told")
	}
	if all := o.living(); len(all) != 5 || all[0].Of != 1 || all[4].Of != 4 || all[4].Index != 3 || all[4].Generation != 2 {
		t.Errorf("lanes are %+v", all)
	}
}

func laneWaits[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.order(2)
	next := o.living()[1]
	try := func() relay.Lease {
		lease, err := o.Standby.Lead(o.ctx, "next", next.Number, time.Hour)
		if err != nil {
			t.Fatalf("Lead: %v", err)
		}
		return lease
	}
	if l := try(); l.Held || !l.Early {
		t.Fatalf("while the lane before it reads, it is given %+v", l)
	}
	o.end()
	if l := try(); !l.Held || l.Early {
		t.Fatalf("when all before it have ended, it is given %+v", l)
	}
}

func laneEnds[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.order(2)
	o.end()
	for i, log := range []relay.Store{o.Store, o.Standby} {
		if l, err := log.Lead(o.ctx, fmt.Sprint("another-", i), 0, time.Hour); err != nil || l.Held || !l.Ended {
			t.Errorf("a lane that has ended is given as %+v, %v", l, err)
		}
	}
	o.lease.Ended = false
	wantFenced(t, "Commit", o.tryFlush(0, relay.Flush{}))
}

func laneSees[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "1c", "0d")
	for lane, want := range []string{"0a . . 0d", ". 1b 1c ."} {
		p := l.read(lane, relay.PollQuery{})
		if got := seen(p); got != want || !p.Complete {
			t.Errorf("lane %d sees %q (complete %v), want %q", lane, got, p.Complete, want)
		}
		for _, r := range p.Rows {
			if r.Elsewhere && r.Event != nil && len(r.Event.Payload) > 0 {
				t.Errorf("lane %d reads the payload of %s", lane, r.Event.ID)
			}
		}
	}
	if last := l.read(1, relay.PollQuery{}).Rows[3]; last.Event == nil || last.Event.ID != "0d" {
		t.Errorf("the last row of a page is %+v; want its event id for the checkpoint", last)
	}
	p := l.read(0, relay.PollQuery{After: 4, Holes: []int64{1, 2, 3}})
	if got := seen(p); got != "0a . ." {
		t.Errorf("holes are seen as %q", got)
	}
}

func lanePage[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "0c", "1d", "0e")
	for _, c := range []struct {
		q        relay.PollQuery
		want     string
		complete bool
	}{
		{relay.PollQuery{MaxRows: 2, MaxBytes: 1 << 20}, "0a . 0c .", false},
		{relay.PollQuery{MaxRows: 3, MaxBytes: 1 << 20}, "0a . 0c . 0e", true},
		{relay.PollQuery{MaxRows: 10, MaxBytes: 1}, "0a", false},
	} {
		p := l.read(0, c.q)
		if got := seen(p); !strings.HasPrefix(got, c.want) || p.Complete != c.complete || strings.Count(got, "0") != strings.Count(c.want, "0") {
			t.Errorf("a page of %d rows and %d bytes is %q (complete %v), want %q (%v)", c.q.MaxRows, c.q.MaxBytes, got, p.Complete, c.want, c.complete)
		}
	}
}

func laneHandsOver[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "0c", "1d")
	hole := int64(7)
	l.commit(0, relay.Flush{}, relay.Reader{Cursor: 8, Open: []int64{3, hole}}) // has sent 0a, not 0c
	l.commit(1, relay.Flush{}, relay.Reader{Cursor: 4, Open: []int64{3}})       // has sent all of its own
	l.order(1)
	for lane := range l.all {
		l.leases[lane].Ended = true
		if err := l.stores[lane].Resign(l.ctx, l.leases[lane]); err != nil {
			t.Fatal(err)
		}
	}
	next := l.followed()
	st := next.loadOf(0)
	if got := fmt.Sprint(st.Checkpoint.Readers); len(next.all) != 1 || got != fmt.Sprint([]relay.Reader{{Cursor: 8, Open: []int64{3, 5, 6, hole, 8}}}) {
		t.Errorf("%d lanes begin with %s; want id 3, which its owner has not sent, and 5 to 8, which nobody has seen", len(next.all), got)
	}
}

func laneSides[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "0c", "1d", "0e", "1f")
	for lane := range l.all {
		r := l.rowsOf(lane)
		l.commit(lane, relay.Flush{
			Park:  []relay.Park{parkRow(r[0], settle.ClassPublish, 1, l.Now())},
			Delay: []relay.Delay{{ID: r[1].ID, EventID: r[1].Event.ID, Destination: r[1].Event.Topic, Key: r[1].Event.Key(), Due: l.Now().Add(time.Duration(lane) * time.Hour)}},
			Cold:  []int64{r[2].ID},
		}, relay.Reader{Cursor: 6})
		if n, err := l.stores[lane].Sweep(l.ctx, l.leases[lane], 10); err != nil || n != 1 {
			t.Fatalf("lane %d finds %d late rows (%v), want its own one", lane, n, err)
		}
	}
	for lane, want := range []string{"0a 0c 0e", "1b  1f"} {
		st := l.loadOf(lane)
		got := ""
		for _, k := range st.Parked {
			p, err := l.stores[lane].Side(l.ctx, relay.SideQuery{Side: relay.SideParked, Destination: k.Destination, Key: k.Key, MaxRows: 10, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			got += strings.Join(rowIDs(p.Rows), ",")
		}
		for _, side := range []relay.Side{relay.SideDelayed, relay.SideExtra} {
			p, err := l.stores[lane].Side(l.ctx, relay.SideQuery{Side: side, Now: l.Now().Add(time.Minute), MaxRows: 10, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			got += " " + strings.Join(rowIDs(p.Rows), ",")
		}
		if got != want || !st.ExtraPending || st.NextDelayed.Sub(l.Now()) > time.Duration(lane)*time.Hour || st.NextDelayed.IsZero() || st.NextDelayed.Before(l.Now().Add(time.Duration(lane)*time.Hour-time.Minute)) {
			t.Errorf("lane %d finds %q beside the log, extra %v, next delayed %v; want %q", lane, got, st.ExtraPending, st.NextDelayed, want)
		}
	}
}

func laneStatus[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "0c", "1d")
	l.commit(0, relay.Flush{}, relay.Reader{Cursor: 4, Open: []int64{3}})
	l.commit(1, relay.Flush{}, relay.Reader{Cursor: 2, Open: []int64{1}})
	for id, want := range map[string]string{"0a": "SENT", "1b": "SENT", "0c": "PENDING", "1d": "PENDING"} {
		l.wantStatus(id, want)
	}
	b, err := l.Store.(relay.Gauge).Backlog(l.ctx, 100)
	if err != nil || b.Pending != 2 {
		t.Errorf("the backlog is %+v, %v; want the two that are not sent", b, err)
	}
}

func laneRetains[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "1b", "0c", "0d")
	l.commit(0, relay.Flush{Sent: sentRows(l.rowsOf(0)...)}, relay.Reader{Cursor: 4})
	l.commit(1, relay.Flush{Sent: sentRows(l.rowsOf(1)...)}, relay.Reader{Cursor: 3, Open: []int64{1}})
	l.Pass(time.Millisecond)
	total := 0
	for lane := range l.all {
		n, err := l.stores[lane].Retain(l.ctx, l.leases[lane], l.Now(), 10)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	left := ""
	for _, id := range []string{"0a", "1b", "0c", "0d"} {
		if _, err := l.Status(l.ctx, id); err == nil {
			left += id + " "
		}
	}
	if total != 2 || left != "0a 0d " {
		t.Errorf("%d rows were deleted and %sare left; want those that the other lane has not seen", total, left)
	}
}

func laneLate[Tx any](t testing.TB, s OutboxStore[Tx]) {
	l := divided(t, s)
	l.put("0a", "0b", "0c", "0d")
	r := l.rowsOf(0)
	// The other lane has given all of them up. Of these its owner has sent a, parked
	// b, passed c with no word of it, and is still to come to d.
	l.commit(1, relay.Flush{Cold: []int64{1, 2, 3, 4}}, relay.Reader{Cursor: 4})
	l.commit(0, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog)}, Park: []relay.Park{parkRow(r[1], settle.ClassPublish, 1, l.Now())}}, relay.Reader{Cursor: 4, Open: []int64{4}})
	for lane, want := range []int{1, 0} {
		if n, err := l.stores[lane].Sweep(l.ctx, l.leases[lane], 10); err != nil || n != want {
			t.Errorf("lane %d lists %d late rows, %v; want %d", lane, n, err, want)
		}
	}
	p, err := l.stores[0].Side(l.ctx, relay.SideQuery{Side: relay.SideExtra, MaxRows: 10, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l.wantRows("late rows are", p.Rows, "0c")
}
