package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func shareCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a delayed row of several destinations stays for those that have not got it", delayedShared[Tx]},
		{"a late row of several destinations stays for those that have not got it", lateShared[Tx]},
		{"a late row moves to be delayed for one of its destinations, or to be parked", lateSharedMoves[Tx]},
		{"an event that is parked for several destinations has one status, the worst", parkedShared[Tx]},
		{"dead letters of one event are replayed and discarded by destination", lettersShared[Tx]},
		{"a skip is over when the last destination has passed the event", skipShared[Tx]},
		{"a row that one of its destinations waits for is not deleted", retainShared[Tx]},
		{"where each broker has an event is kept", sentShared[Tx]},
	}
}

// elsewhere is another destination of a row.
func elsewhere(r relay.Row) string { return relay.DestinationName("archive", r.Event.Topic) }

// bothOf are the destinations of a row that goes to two brokers.
func bothOf(r relay.Row) []string { return []string{r.Event.Topic, elsewhere(r)} }

func sentShare(r relay.Row, destination string, from relay.Origin, share relay.Share) relay.Sent {
	s := sentRow(r, from)
	s.Destination, s.At.Topic, s.Share = destination, destination, &share
	return s
}

func parkShare(r relay.Row, destination string, attempts int, next time.Time, share relay.Share) relay.Park {
	p := parkRow(r, settle.ClassPublish, attempts, next)
	p.Destination, p.Share = destination, &share
	return p
}

func (o *outbox[Tx]) wantOwed(what string, rows []relay.Row, want ...string) {
	o.Helper()
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Event.ID, r.Owed))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		o.Errorf("%s %v, want %v", what, got, want)
	}
}

func delayedShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	due := o.Now().Add(time.Hour).Truncate(time.Microsecond)
	delay := func(r relay.Row, destination string, due time.Time, share *relay.Share) relay.Delay {
		return relay.Delay{ID: r.ID, EventID: r.Event.ID, Destination: destination, Key: r.Event.Key(), Due: due, Share: share}
	}
	// One destination reads a row when the other has had it delayed already.
	o.flush(r[2].ID, relay.Flush{Delay: []relay.Delay{
		delay(r[0], topic, due, &relay.Share{}), delay(r[0], other, due, &relay.Share{}), delay(r[1], topic, due.Add(time.Second), &relay.Share{Pending: true}),
		delay(r[2], topic, due.Add(2*time.Second), nil),
	}})
	o.flush(r[2].ID, relay.Flush{Delay: []relay.Delay{delay(r[1], other, due.Add(time.Second), &relay.Share{})}})
	both := fmt.Sprint(bothOf(r[0]))
	q := relay.SideQuery{Side: relay.SideDelayed, Now: due.Add(time.Minute)}
	o.wantOwed("due are", o.side(q).Rows, "a"+both, "b"+both, "c[]")
	q.Held = []string{other}
	o.wantOwed("with one held due are", o.side(q).Rows, "a"+both, "b"+both, "c[]")
	q.Held = []string{topic, other}
	o.wantOwed("with both held due are", o.side(q).Rows)
	share := relay.Share{Owed: bothOf(r[0])}
	o.flush(r[2].ID, relay.Flush{Sent: []relay.Sent{sentShare(r[0], topic, relay.FromDelayed, share), sentShare(r[1], other, relay.FromDelayed, share)}})
	o.wantStatus("a", "PENDING")
	q.Held = nil
	o.wantOwed("left are", o.side(q).Rows, "a["+other+"]", "b["+topic+"]", "c[]")
	q.Held = []string{topic}
	o.wantOwed("with one held left are", o.side(q).Rows, "a["+other+"]")
	q.Held, q.Now = []string{other}, due.Add(-time.Minute)
	if next := o.side(q).Next; !next.Equal(due.Add(time.Second)) {
		t.Errorf("the next row of one that is not held is due %v, want %v", next, due.Add(time.Second))
	}
	o.flush(r[2].ID, relay.Flush{Sent: []relay.Sent{sentShare(r[0], other, relay.FromDelayed, relay.Share{Owed: []string{other}})}})
	q.Held, q.Now = nil, due.Add(time.Minute)
	o.wantOwed("left are", o.side(q).Rows, "b["+topic+"]", "c[]")
	o.wantStatus("a", "SENT")
}

func lateShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	id := o.late(event("late", "k"))
	o.sweep(1)
	r := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows[0]
	topic, other := r.Event.Topic, elsewhere(r)
	o.wantOwed("before the first has it", []relay.Row{r}, "late[]")
	o.flush(id+5, relay.Flush{Sent: []relay.Sent{sentShare(r, topic, relay.FromExtra, relay.Share{Owed: bothOf(r)})}})
	o.wantStatus("late", "PENDING")
	rows := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows
	o.wantOwed("when one has it", rows, "late["+other+"]")
	if st := o.load(); !st.ExtraPending {
		t.Error("a late row waits for one destination, and the state does not say so")
	}
	o.flush(id+5, relay.Flush{Sent: []relay.Sent{sentShare(r, other, relay.FromExtra, relay.Share{Owed: []string{other}})}})
	o.wantOwed("when both have it", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
	o.wantStatus("late", "SENT")
}

func lateSharedMoves[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	id := o.late(event("late", "k"))
	o.sweep(1)
	r := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows[0]
	topic, other := r.Event.Topic, elsewhere(r)
	share := relay.Share{Owed: bothOf(r)}
	o.flush(id+5, relay.Flush{Delay: []relay.Delay{
		{ID: r.ID, EventID: "late", Destination: topic, Key: "k", From: relay.FromExtra, Due: o.Now(), Share: &share},
	}})
	o.wantOwed("late are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows, "late["+other+"]")
	park := parkShare(r, other, 0, o.Now(), relay.Share{Owed: []string{other}})
	park.From = relay.FromExtra
	o.flush(id+5, relay.Flush{Park: []relay.Park{park}})
	o.wantOwed("late are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
	o.wantOwed("delayed are", o.side(relay.SideQuery{Side: relay.SideDelayed, Now: o.Now().Add(time.Hour)}).Rows, "late["+topic+"]")
	o.wantRows("parked are", o.side(relay.SideQuery{Side: relay.SideParked, Destination: other, Key: "k"}).Rows, "late")
}

func parkedShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	o.flush(r[2].ID, relay.Flush{Park: []relay.Park{
		parkShare(r[0], topic, 0, o.Now(), relay.Share{}), parkShare(r[0], other, 3, o.Now(), relay.Share{}),
		parkShare(r[1], topic, 3, o.Now(), relay.Share{}), parkShare(r[1], other, 0, o.Now(), relay.Share{}),
		parkShare(r[2], topic, 3, o.Now(), relay.Share{}), parkShare(r[2], other, 3, o.Now(), relay.Share{}),
	}})
	o.wantStatus("a", "RETRY")
	o.wantStatus("b", "RETRY")
	for _, destination := range []string{topic, other} {
		dead := death(r[2], false)
		dead.Destination = destination
		o.flush(r[2].ID, relay.Flush{Dead: []relay.Death{dead}})
		o.wantStatus("c", "DEAD")
	}
	o.flush(r[2].ID, relay.Flush{Sent: []relay.Sent{sentShare(r[0], other, relay.FromParked, relay.Share{}), sentShare(r[1], other, relay.FromParked, relay.Share{})}})
	o.wantStatus("a", "PENDING")
	o.wantStatus("b", "RETRY")
	o.flush(r[2].ID, relay.Flush{Sent: []relay.Sent{sentShare(r[0], topic, relay.FromParked, relay.Share{}), sentShare(r[1], topic, relay.FromParked, relay.Share{})}})
	o.wantStatus("a", "SENT")
	o.wantStatus("b", "SENT")
}

func lettersShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	f := relay.Flush{}
	for _, destination := range []string{topic, other} {
		dead := death(r[0], false)
		dead.Destination = destination
		f.Park = append(f.Park, parkShare(r[0], destination, 9, o.Now(), relay.Share{}))
		f.Dead = append(f.Dead, dead)
	}
	o.flush(r[0].ID, f)
	byDestination := func(state string) map[string]int64 {
		letters, err := o.Governance.DeadLetters(o.ctx, govern.Filter{State: state})
		if err != nil {
			t.Fatalf("DeadLetters: %v", err)
		}
		ids := map[string]int64{}
		for _, d := range letters {
			ids[d.Topic] = d.ID
		}
		return ids
	}
	open := byDestination(govern.StateOpen)
	if len(open) != 2 {
		t.Fatalf("open letters are %v, want one for each destination", open)
	}
	if out, err := o.Governance.Discard(o.ctx, actor, open[topic]); err != nil || out[0].Result != "done" {
		t.Fatalf("Discard: %+v, %v", out, err)
	}
	o.wantStatus("a", "DEAD")
	if out, err := o.Governance.Replay(o.ctx, actor, govern.ReplayOptions{}, open[other]); err != nil || out[0].Result != "done" {
		t.Fatalf("Replay: %+v, %v", out, err)
	}
	if got := o.parkedKeys(); got != "["+other+"/key-a:1]" {
		t.Errorf("parked keys are %s, want that of the replayed letter only", got)
	}
	o.flush(r[0].ID, relay.Flush{Sent: []relay.Sent{sentShare(r[0], other, relay.FromParked, relay.Share{})}})
	if left := byDestination(govern.StateReplayed); len(left) != 1 || left[other] == 0 {
		t.Errorf("replayed are %v, want that of %s", left, other)
	}
	o.wantStatus("a", "DISCARDED") // a person has given one of its destinations up
}

func skipShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	for _, id := range []string{"a", "b"} {
		if err := o.Governance.Skip(o.ctx, actor, id); err != nil {
			t.Fatalf("Skip: %v", err)
		}
	}
	skip := func(r relay.Row, destination string, from relay.Origin, pending bool) {
		o.flush(r.ID, relay.Flush{Skip: []relay.Skip{{ID: r.ID, EventID: r.Event.ID, Destination: destination, From: from, Share: &relay.Share{Pending: pending}}}})
	}
	skip(r[0], topic, relay.FromLog, true)
	if n := o.skips(); n != 2 {
		t.Fatalf("%d skips are in force when one of two destinations has passed an event of two, want 2", n)
	}
	skip(r[0], other, relay.FromLog, false)
	if n := o.skips(); n != 1 {
		t.Errorf("%d skips are in force when both have passed one event, want 1", n)
	}
	o.wantStatus("a", "DISCARDED")
	o.flush(r[1].ID, relay.Flush{Park: []relay.Park{parkShare(r[1], other, 1, o.Now(), relay.Share{Pending: true})}})
	skip(r[1], topic, relay.FromLog, false)
	if n := o.skips(); n != 1 {
		t.Errorf("%d skips are in force while the event is parked for one destination, want 1", n)
	}
	skip(r[1], other, relay.FromParked, false)
	if n := o.skips(); n != 0 {
		t.Errorf("%d skips are in force when all is passed", n)
	}
	o.wantStatus("b", "DISCARDED")
}

func retainShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcd")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	behind := relay.Reader{Destination: other, Cursor: r[2].ID, Topics: []string{topic}}
	main := relay.Reader{Cursor: r[3].ID, Routing: []relay.Routing{{Routes: []relay.Route{{Also: true}, {Broker: "archive"}}}}, Routed: []relay.Reader{behind}}
	o.flush(0, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{main, {Destination: topic, Cursor: r[2].ID}}},
		Sent: []relay.Sent{
			sentShare(r[0], topic, relay.FromLog, relay.Share{}), sentShare(r[0], other, relay.FromLog, relay.Share{}),
			sentShare(r[1], topic, relay.FromLog, relay.Share{Pending: true}), sentShare(r[3], topic, relay.FromLog, relay.Share{Pending: true}),
		},
		Park: []relay.Park{parkShare(r[1], other, 1, o.Now(), relay.Share{})},
		Delay: []relay.Delay{
			{ID: r[2].ID, EventID: "c", Destination: topic, Key: "key-c", Due: o.Now(), Share: &relay.Share{}},
			{ID: r[2].ID, EventID: "c", Destination: other, Key: "key-c", Due: o.Now(), Share: &relay.Share{}},
		},
	})
	o.flush(0, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{main, {Destination: topic, Cursor: r[2].ID}}},
		Sent:       []relay.Sent{sentShare(r[2], topic, relay.FromDelayed, relay.Share{Owed: bothOf(r[2])})},
	})
	if st := o.load(); len(st.Checkpoint.Readers) == 0 || len(st.Checkpoint.Readers[0].Routing) != 1 || !st.Checkpoint.Readers[0].Routing[0].Routes[0].Also {
		t.Errorf("the routes of the position are %+v", st.Checkpoint)
	}
	o.wantStatus("a", "SENT")
	o.wantStatus("b", "RETRY")
	o.wantStatus("c", "PENDING")
	o.wantStatus("d", "PENDING")
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 1 {
		t.Errorf("%d events were deleted, want 1", n)
	}
	o.rows("b", "c", "d")
}

func sentShared[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	topic, other := r[0].Event.Topic, elsewhere(r[0])
	o.flush(r[0].ID, relay.Flush{Sent: []relay.Sent{
		sentShare(r[0], topic, relay.FromLog, relay.Share{Pending: true}), sentShare(r[0], other, relay.FromLog, relay.Share{}),
	}})
	steps, err := o.Governance.Trail(o.ctx, "a")
	if err != nil {
		t.Fatalf("Trail: %v", err)
	}
	at := map[string]int64{}
	for _, step := range steps {
		if step.Stage == govern.StagePublished {
			at[step.Broker.Topic] = step.Broker.Offset
		}
	}
	if len(at) != 2 || at[topic] != 100+r[0].ID || at[other] != 100+r[0].ID {
		t.Errorf("the trail has it published at %v, want both brokers", at)
	}
}
