package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func parkCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"parked rows come back in the order in which they were parked, by destination and key", parkOrder[Tx]},
		{"a page of a parked key is bounded and says so", parkBounded[Tx]},
		{"a key is free again when its last parked row is gone", unpark[Tx]},
		{"an attempt moves the due time of the head", attemptMoves[Tx]},
		{"with how many others a suspect was tried comes back", triedTogether[Tx]},
		{"what is known of a parked row comes back", parkKeeps[Tx]},
		{"a parked row whose event is gone is returned as gone", parkGone[Tx]},
		{"a dead head holds its key and is a dead letter with its payload", deadHolds[Tx]},
		{"with pass a dead row lets those behind it go on", deadPasses[Tx]},
		{"a row parked and dead in one commit is a dead letter", deadAtOnce[Tx]},
		{"a replayed dead letter is due again in its place, and closed when it is sent", replayRevives[Tx]},
		{"an event that dies again after a replay opens its dead letter again", diesAgain[Tx]},
		{"a discarded dead letter lets those behind it go on", discardFrees[Tx]},
	}
}

// follow parks rows of one key, the first as the head that failed.
func (o *outbox[Tx]) follow(ids ...string) []relay.Row {
	o.Helper()
	for _, id := range ids {
		o.append(event(id, "k"))
	}
	rows := o.poll(relay.PollQuery{}).Rows
	rows = rows[len(rows)-len(ids):]
	var f relay.Flush
	for i, r := range rows {
		p := parkRow(r, settle.ClassFollower, 0, time.Time{})
		if i == 0 {
			p = parkRow(r, settle.ClassPublish, 1, o.Now().Add(time.Minute))
		}
		f.Park = append(f.Park, p)
	}
	o.flush(rows[len(rows)-1].ID, f)
	return rows
}

func (o *outbox[Tx]) parked(key string, want ...string) []relay.Row {
	o.Helper()
	rows := o.side(relay.SideQuery{Side: relay.SideParked, Destination: settle.DefaultTopic, Key: key}).Rows
	o.wantRows("parked rows of "+key+" are", rows, want...)
	return rows
}

func parkOrder[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	for _, e := range []*settle.Event{event("a", "k"), event("b", "k"), event("c", "k"), event("x", "other")} {
		o.append(e)
	}
	elsewhere := event("t", "k")
	elsewhere.Topic = "elsewhere"
	o.append(elsewhere)
	r := o.rows("a", "b", "c", "x", "t")
	// A later row may be parked before an earlier one: a late one joins behind.
	for _, i := range []int{1, 3, 4, 0, 2} {
		o.flush(r[4].ID, relay.Flush{Park: []relay.Park{parkRow(r[i], settle.ClassFollower, 0, time.Time{})}})
	}
	rows := o.parked("k", "b", "a", "c")
	if rows[0].ParkNo >= rows[1].ParkNo || rows[1].ParkNo >= rows[2].ParkNo {
		t.Errorf("park numbers %d, %d, %d do not rise", rows[0].ParkNo, rows[1].ParkNo, rows[2].ParkNo)
	}
	if got, want := o.parkedKeys(), "[elsewhere/k:1 "+settle.DefaultTopic+"/k:3 "+settle.DefaultTopic+"/other:1]"; got != want {
		t.Errorf("parked keys are %s, want %s", got, want)
	}
}

func parkBounded[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.follow("a", "b", "c")
	p := o.side(relay.SideQuery{Side: relay.SideParked, Destination: settle.DefaultTopic, Key: "k", MaxRows: 2, MaxBytes: 1 << 20})
	o.wantRows("a page of 2 has", p.Rows, "a", "b")
	if !p.More {
		t.Error("a page that was cut by rows does not say so")
	}
	p = o.side(relay.SideQuery{Side: relay.SideParked, Destination: settle.DefaultTopic, Key: "k", MaxRows: 9, MaxBytes: 1})
	o.wantRows("a page of a byte has", p.Rows, "a")
	if !p.More {
		t.Error("a page that was cut by bytes does not say so")
	}
}

func unpark[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	cursor := r[1].ID
	o.flush(cursor, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromParked)}})
	if st := o.load(); len(st.Parked) != 1 || st.Parked[0].Rows != 1 || !st.Parked[0].HeadDue.IsZero() {
		t.Fatalf("after its head was sent the key is parked as %+v; the next row is due at once", st.Parked)
	}
	o.flush(cursor, relay.Flush{Sent: []relay.Sent{sentRow(r[1], relay.FromParked)}})
	if st := o.load(); len(st.Parked) != 0 {
		t.Fatalf("after its last row was sent the key is parked as %+v", st.Parked)
	}
	o.wantStatus("a", "SENT")
	o.wantStatus("b", "SENT")
}

func attemptMoves[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	due := o.Now().Add(time.Hour).Truncate(time.Microsecond)
	o.flush(r[1].ID, relay.Flush{Attempts: []relay.Attempt{
		{ID: r[0].ID, Destination: settle.DefaultTopic, Attempts: 4, NextAt: due, Class: settle.ClassPublish, Cause: "again", Suspect: true},
	}})
	if got := o.load().Parked[0]; !got.HeadDue.Equal(due) || got.HeadDead || got.Rows != 2 {
		t.Errorf("parked key is %+v, want its head due %v", got, due)
	}
	if row := o.parked("k", "a", "b")[0]; row.Attempts != 4 || !row.Suspect {
		t.Errorf("the head has %d attempts and suspect is %v", row.Attempts, row.Suspect)
	}
}

func triedTogether[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b", "c")
	try := func(attempts, together int, suspect bool, rows ...relay.Row) {
		var f relay.Flush
		for _, row := range rows {
			f.Attempts = append(f.Attempts, relay.Attempt{
				ID: row.ID, Destination: settle.DefaultTopic, Attempts: attempts, Together: together, NextAt: o.Now(), Class: settle.ClassSuspect, Suspect: suspect,
			})
		}
		o.flush(r[2].ID, f)
	}
	want := func(together ...int) {
		t.Helper()
		for i, row := range o.parked("k", "a", "b", "c") {
			if row.Together != together[i] {
				t.Errorf("row %d was tried with %d, want %d", i, row.Together, together[i])
			}
		}
	}
	want(0, 0, 0)
	try(0, 2, true, r[0], r[1])
	want(2, 2, 0)
	try(1, 1, true, r[0])
	want(1, 2, 0)
	try(1, 0, false, r[0])
	want(0, 2, 0)
}

func parkKeeps[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	p := parkRow(r[0], settle.ClassSuspect, 2, o.Now())
	p.MessageID, p.Suspect = "a#2", true
	o.flush(r[0].ID, relay.Flush{Park: []relay.Park{p}})
	row := o.parked("key-a", "a")[0]
	if row.MessageID != "a#2" || !row.Suspect || row.Attempts != 2 || row.ID != r[0].ID || string(row.Event.Payload) != `{"id":"a"}` {
		t.Errorf("parked row comes back as %+v with event %+v", row, row.Event)
	}
}

func parkGone[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	if err := o.Vanish(o.ctx, "a"); err != nil {
		t.Fatalf("delete a row: %v", err)
	}
	rows := o.parked("k", "a", "b")
	if !rows[0].Gone || rows[0].ID != r[0].ID || rows[1].Gone {
		t.Errorf("rows are %+v, want the first as gone", rows)
	}
}

func deadHolds[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	o.flush(r[1].ID, relay.Flush{Dead: []relay.Death{death(r[0], false)}})
	if got := o.load().Parked; len(got) != 1 || !got[0].HeadDead || got[0].Rows != 2 {
		t.Errorf("parked keys are %+v, want one with a dead head", got)
	}
	o.parked("k")
	o.wantStatus("a", "DEAD")
	d, err := o.Governance.DeadLetter(o.ctx, o.letter(govern.StateOpen).ID)
	if err != nil {
		t.Fatalf("DeadLetter: %v", err)
	}
	if d.EventID != "a" || d.Group != "" || d.Key != "k" || d.EventType != "order.created" || d.Class != settle.ClassPublish || d.Attempts != 10 ||
		d.Reason != "refused ten times" || string(d.Payload) != `{"id":"a"}` || d.Behind != 1 {
		t.Errorf("dead letter is %+v with payload %s", d, d.Payload)
	}
}

func deadPasses[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	o.flush(r[1].ID, relay.Flush{Dead: []relay.Death{death(r[0], true)}})
	o.parked("k", "b")
	o.letter(govern.StateOpen)
	o.wantStatus("a", "DEAD")
}

func deadAtOnce[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	o.flush(r[0].ID, relay.Flush{Park: []relay.Park{parkRow(r[0], settle.ClassInvalid, 1, time.Time{})}, Dead: []relay.Death{death(r[0], false)}})
	o.letter(govern.StateOpen)
	o.wantStatus("a", "DEAD")
}

var actor = govern.Act{By: "a person", Reason: "a test"}

func (o *outbox[Tx]) replay() {
	o.Helper()
	out, err := o.Governance.Replay(o.ctx, actor, govern.ReplayOptions{}, o.letter(govern.StateOpen).ID)
	if err != nil || len(out) != 1 || out[0].Result != "done" {
		o.Fatalf("Replay: %+v, %v", out, err)
	}
}

func replayRevives[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	o.flush(r[1].ID, relay.Flush{Dead: []relay.Death{death(r[0], false)}})
	version := o.poll(relay.PollQuery{}).Controls
	o.replay()
	ctl, err := o.Store.Controls(o.ctx)
	if err != nil || ctl.Version == version || len(ctl.Parked) != 1 || ctl.Parked[0].HeadDead || ctl.Parked[0].HeadDue.After(o.Now()) {
		t.Fatalf("controls after a replay are %+v, %v; the version was %d", ctl, err, version)
	}
	if row := o.parked("k", "a", "b")[0]; row.Attempts != 0 {
		t.Errorf("a replayed event begins with %d attempts", row.Attempts)
	}
	o.flush(r[1].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromParked)}})
	o.letter(govern.StateReplayed)
	o.wantStatus("a", "SENT")
	o.parked("k", "b")
}

func diesAgain[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a")
	o.flush(r[0].ID, relay.Flush{Dead: []relay.Death{death(r[0], false)}})
	o.replay()
	o.flush(r[0].ID, relay.Flush{Dead: []relay.Death{death(r[0], false)}})
	o.letter(govern.StateOpen)
	o.wantStatus("a", "DEAD")
}

func discardFrees[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.follow("a", "b")
	o.flush(r[1].ID, relay.Flush{Dead: []relay.Death{death(r[0], false)}})
	version := o.poll(relay.PollQuery{}).Controls
	out, err := o.Governance.Discard(o.ctx, actor, o.letter(govern.StateOpen).ID)
	if err != nil || len(out) != 1 || out[0].Result != "done" {
		t.Fatalf("Discard: %+v, %v", out, err)
	}
	if now := o.poll(relay.PollQuery{}).Controls; now == version {
		t.Error("the relay is not told")
	}
	o.letter(govern.StateDiscarded)
	o.wantStatus("a", "DISCARDED")
	o.parked("k", "b")
}
