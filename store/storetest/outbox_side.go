package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func sideCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"delayed rows come back when due, in the order of their due times", delayedDue[Tx]},
		{"delayed rows of held destinations are left out", delayedHeld[Tx]},
		{"a cold hole that is filled late is listed once", lateListed[Tx]},
		{"late rows of held destinations are left out", lateHeld[Tx]},
		{"a late row that is not due yet is delayed, and late no more", lateDelayed[Tx]},
		{"an event that is to be skipped is passed once", skipPassed[Tx]},
		{"a parked event that is skipped lets those behind it go on", skipParked[Tx]},
	}
}

func (o *outbox[Tx]) delay(rows []relay.Row, due ...time.Time) {
	o.Helper()
	var f relay.Flush
	for i, r := range rows {
		f.Delay = append(f.Delay, relay.Delay{ID: r.ID, EventID: r.Event.ID, Destination: r.Event.Topic, Key: r.Event.Key(), Due: due[i]})
	}
	o.flush(rows[len(rows)-1].ID, f)
}

func delayedDue[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcd")
	t0 := o.Now().Truncate(time.Microsecond)
	o.delay(r, t0.Add(3*time.Hour), t0.Add(time.Hour), t0.Add(2*time.Hour), t0.Add(time.Hour))
	if st := o.load(); !st.NextDelayed.Equal(t0.Add(time.Hour)) {
		t.Errorf("the next delayed row is due %v, want %v", st.NextDelayed, t0.Add(time.Hour))
	}
	p := o.side(relay.SideQuery{Side: relay.SideDelayed, Now: t0})
	if len(p.Rows) != 0 || p.More || !p.Next.Equal(t0.Add(time.Hour)) {
		t.Errorf("before their time: rows %v, more %v, next %v", rowIDs(p.Rows), p.More, p.Next)
	}
	p = o.side(relay.SideQuery{Side: relay.SideDelayed, Now: t0.Add(2 * time.Hour)})
	o.wantRows("due after two hours are", p.Rows, "b", "d", "c")
	if p.More || !p.Next.Equal(t0.Add(3*time.Hour)) {
		t.Errorf("more is %v and the next row is due %v, want %v", p.More, p.Next, t0.Add(3*time.Hour))
	}
	p = o.side(relay.SideQuery{Side: relay.SideDelayed, Now: t0.Add(2 * time.Hour), MaxRows: 1, MaxBytes: 1 << 20})
	o.wantRows("a page of one has", p.Rows, "b")
	if !p.More {
		t.Error("a page that was cut does not say so")
	}
	o.wantStatus("b", "PENDING")
	o.flush(r[3].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[1], relay.FromDelayed)}})
	p = o.side(relay.SideQuery{Side: relay.SideDelayed, Now: t0.Add(9 * time.Hour)})
	o.wantRows("left are", p.Rows, "d", "c", "a")
	if !p.Next.IsZero() {
		t.Errorf("nothing is left, and the next row is due %v", p.Next)
	}
	o.wantStatus("b", "SENT")
}

func delayedHeld[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	held := event("held", "k")
	held.Topic = "slow"
	o.append(held, event("free", "k"))
	r := o.rows("held", "free")
	t0 := o.Now()
	o.delay(r, t0.Add(-time.Hour), t0)
	if p := o.side(relay.SideQuery{Side: relay.SideDelayed, Now: t0}); len(p.Rows) != 2 || p.Rows[0].Destination != "slow" {
		t.Errorf("delayed rows are %+v; each says where it is to go", p.Rows)
	}
	q := relay.SideQuery{Side: relay.SideDelayed, Now: t0, Held: []string{"slow"}}
	p := o.side(q)
	o.wantRows("with slow held there are", p.Rows, "free")
	q.Now = t0.Add(-2 * time.Hour)
	if p = o.side(q); !p.Next.Equal(t0.Truncate(time.Microsecond)) {
		t.Errorf("the next row of a free destination is due %v, want %v", p.Next, t0)
	}
	q.Held, q.Now = nil, t0
	o.wantRows("with nothing held there are", o.side(q).Rows, "held", "free")
}

// late makes an event whose id was a cold hole.
func (o *outbox[Tx]) late(e *settle.Event) int64 {
	o.Helper()
	r := o.appendKeys("ab")
	id := r[1].ID + 5
	if err := o.Insert(o.ctx, id+5, event("last", "l")); err != nil {
		o.Fatalf("insert the row at the cursor: %v", err)
	}
	o.flush(id+5, relay.Flush{Cold: []int64{id, id + 1}, Sent: sentRows(o.rows("a", "b", "last")...)})
	o.sweep(0)
	if err := o.Insert(o.ctx, id, e); err != nil {
		o.Fatalf("insert a late row: %v", err)
	}
	return id
}

func (o *outbox[Tx]) sweep(want int) {
	o.Helper()
	n, err := o.Store.Sweep(o.ctx, o.lease, 100)
	if err != nil || n != want {
		o.Fatalf("Sweep finds %d, %v; want %d", n, err, want)
	}
}

func lateListed[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	id := o.late(event("late", "k"))
	o.sweep(1)
	o.sweep(0)
	if !o.load().ExtraPending {
		t.Error("a late row waits, and the state does not say so")
	}
	o.wantStatus("late", "PENDING")
	rows := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows
	o.wantRows("late rows are", rows, "late")
	if rows[0].ID != id {
		t.Errorf("the late row has id %d, want %d", rows[0].ID, id)
	}
	o.flush(id+5, relay.Flush{Sent: []relay.Sent{sentRow(rows[0], relay.FromExtra)}})
	o.wantRows("late rows after it was sent are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
	o.sweep(0)
	if o.load().ExtraPending {
		t.Error("no late row waits, and the state says that one does")
	}
	o.wantStatus("late", "SENT")
}

func lateHeld[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	e := event("late", "k")
	e.Topic = "slow"
	id := o.late(e)
	o.sweep(1)
	o.wantRows("behind it there are", o.side(relay.SideQuery{Side: relay.SideExtra, After: id}).Rows)
	o.wantRows("behind the one before there are", o.side(relay.SideQuery{Side: relay.SideExtra, After: id - 1}).Rows, "late")
	o.wantRows("with slow held there are", o.side(relay.SideQuery{Side: relay.SideExtra, Held: []string{"slow"}}).Rows)
	o.wantRows("with other held there are", o.side(relay.SideQuery{Side: relay.SideExtra, Held: []string{"other"}}).Rows, "late")
}

func lateDelayed[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.late(event("late", "k"))
	o.sweep(1)
	r := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows[0]
	o.flush(r.ID, relay.Flush{Delay: []relay.Delay{
		{ID: r.ID, EventID: "late", Destination: r.Event.Topic, Key: "k", From: relay.FromExtra, Due: o.Now().Add(time.Hour)},
	}})
	o.wantRows("late rows are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
	o.wantRows("delayed rows are", o.side(relay.SideQuery{Side: relay.SideDelayed, Now: o.Now().Add(time.Hour)}).Rows, "late")
}

func (o *outbox[Tx]) skips() int {
	o.Helper()
	ctl, err := o.Store.Controls(o.ctx)
	if err != nil {
		o.Fatalf("Controls: %v", err)
	}
	return len(ctl.Skips)
}

func skipPassed[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	if err := o.Governance.Skip(o.ctx, actor, "a"); err != nil {
		t.Fatalf("Skip: %v", err)
	}
	o.wantStatus("a", "PENDING")
	o.flush(r[1].ID, relay.Flush{
		Skip: []relay.Skip{{ID: r[0].ID, EventID: "a", Destination: r[0].Event.Topic}},
		Sent: []relay.Sent{sentRow(r[1], relay.FromLog)},
	})
	if n := o.skips(); n != 0 {
		t.Errorf("%d skips are in force after it was passed", n)
	}
	o.wantStatus("a", "DISCARDED")
	o.wantStatus("b", "SENT")
}

func skipParked[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	if err := o.Governance.Skip(o.ctx, actor, "a"); err != nil {
		t.Fatalf("Skip: %v", err)
	}
	o.flush(r[1].ID, relay.Flush{Skip: []relay.Skip{{ID: r[0].ID, EventID: "a", Destination: settle.DefaultTopic, From: relay.FromParked}}})
	o.parked("k", "b")
	o.wantStatus("a", "DISCARDED")
}
