package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func restartCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a sweep of a table that was made anew says so", sweepSeesNewLife[Tx]},
		{"where a relay stands is told beside the table as it is", standingTold[Tx]},
		{"a restart is refused while a relay leads, without who and why, and for an id that is not given", restartRefused[Tx]},
		{"a restart sends what is there from an id on, and counts what is before as sent", restartFrom[Tx]},
		{"a restart from the end sends what is appended from then on", restartFromEnd[Tx]},
		{"what waited beside the log is kept at a restart if its event is there, and is a dead letter if not", restartBeside[Tx]},
		{"after a restart nothing of another life is taken for published", restartForgets[Tx]},
	}
}

// anew is an outbox of which three events were sent, and whose table then was
// made anew, with rows of other events under the same ids. Nobody leads it.
func anew[Tx any](t testing.TB, s OutboxStore[Tx], events string) *outbox[Tx] {
	o := leading(t, s)
	r := o.appendKeys("abc")
	o.flush(r[2].ID, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[2].ID, CursorEvent: "c"}}},
		Sent:       []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[1], relay.FromLog), sentRow(r[2], relay.FromLog)},
	})
	o.makeAnew(events)
	return o
}

func (o *outbox[Tx]) makeAnew(events string) {
	o.Helper()
	if err := o.Empty(o.ctx); err != nil {
		o.Fatalf("empty the table: %v", err)
	}
	if events != "" {
		o.appendKeys(events)
	}
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		o.Fatalf("Resign: %v", err)
	}
}

func (o *outbox[Tx]) restart(from int64) govern.Restart {
	o.Helper()
	r, err := o.Governance.Restart(o.ctx, actor, from)
	if err != nil {
		o.Fatalf("Restart from %d: %v", from, err)
	}
	return r
}

func (o *outbox[Tx]) standing() govern.Standing {
	o.Helper()
	s, err := o.Governance.Standing(o.ctx)
	if err != nil {
		o.Fatalf("Standing: %v", err)
	}
	return s
}

func sweepSeesNewLife[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	o.flush(r[2].ID, relay.Flush{Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[2].ID, CursorEvent: "c"}}}})
	o.sweep(0)
	if err := o.Empty(o.ctx); err != nil {
		t.Fatal(err)
	}
	for _, events := range []string{"", "xyz"} {
		if events != "" {
			o.appendKeys(events)
		}
		if _, err := o.Store.Sweep(o.ctx, o.lease, 100); !errors.Is(err, settle.ErrNewGeneration) {
			t.Errorf("with rows %q Sweep gives %v, want %v", events, err, settle.ErrNewGeneration)
		}
	}
}

func standingTold[Tx any](t testing.TB, s OutboxStore[Tx]) {
	if got := newOutbox(t, s).standing(); got.Epoch != 0 || len(got.Readers) != 0 || got.OtherLife != "" || got.Leader != "" {
		t.Errorf("before any relay the standing is %+v", got)
	}
	o := leading(t, s)
	r := o.appendKeys("abcd")
	at := relay.Reader{Cursor: r[2].ID, CursorEvent: "c"}
	o.flush(r[2].ID, relay.Flush{Checkpoint: relay.Checkpoint{Readers: []relay.Reader{at}}, Park: []relay.Park{parkRow(r[0], settle.ClassPublish, 1, o.Now())}})
	got := o.standing()
	want := govern.ReaderAt{Cursor: r[2].ID, CursorEvent: "c", Now: "c", Below: 3, Above: 1}
	if got.OtherLife != "" || got.Epoch != o.lease.Epoch || len(got.Readers) != 1 || got.Readers[0] != want {
		t.Errorf("the standing is %+v, want its reader at %+v", got, want)
	}
	if got.Rows != 4 || got.Lowest != r[0].ID || got.Highest != r[3].ID || got.Given != r[3].ID || got.Parked != 1 || got.Leader != "first" || !got.Until.After(o.Now()) {
		t.Errorf("the standing is %+v", got)
	}
	o.makeAnew("xy")
	got = o.standing()
	if !strings.Contains(got.OtherLife, "ids up to 2 only") || got.Rows != 2 || got.Readers[0].Below != 2 || got.Readers[0].Now != "" || got.Leader != "" {
		t.Errorf("of a table made anew the standing is %+v", got)
	}
}

func restartRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.appendKeys("ab")
	if _, err := o.Governance.Restart(o.ctx, actor, 1); !errors.Is(err, govern.ErrLeads) {
		t.Errorf("while a relay leads a restart gives %v, want %v", err, govern.ErrLeads)
	}
	o.flush(2, relay.Flush{})
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		t.Fatal(err)
	}
	for _, a := range []govern.Act{{By: "ann"}, {Reason: "a restore"}} {
		if r, err := o.Governance.Restart(o.ctx, a, 1); err == nil {
			t.Errorf("a restart with %+v gives %+v", a, r)
		}
	}
	for _, from := range []int64{0, -2, 4} {
		if r, err := o.Governance.Restart(o.ctx, actor, from); !errors.Is(err, govern.ErrNotGiven) {
			t.Errorf("a restart from id %d of 2 gives %+v, %v", from, r, err)
		}
	}
	if got := o.standing(); got.Epoch != o.lease.Epoch || got.Readers[0].Cursor != 2 {
		t.Errorf("what was refused has changed the position: %+v", got)
	}
	if entries, err := o.Governance.Audit(o.ctx, 0, 10); err != nil || len(entries) != 0 {
		t.Errorf("what was refused is audited: %+v, %v", entries, err)
	}
}

func restartFrom[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := anew(t, s, "xyz")
	got := o.restart(2)
	if got.From != 2 || got.Sent != 2 || got.Passed != 1 || got.Epoch <= o.lease.Epoch || got.Kept != 0 || got.Lost != 0 {
		t.Errorf("Restart gives %+v", got)
	}
	if err := o.tryFlush(3, relay.Flush{}); !errors.Is(err, settle.ErrFenced) {
		t.Errorf("who led before may still write: %v", err)
	}
	old := o.lease.Epoch
	o.lead("second")
	st := o.load()
	if o.lease.Epoch <= got.Epoch || got.Epoch <= old || o.lease.Deaths != 0 {
		t.Errorf("the next leader has %+v behind epoch %d", o.lease, got.Epoch)
	}
	if err := st.CheckGeneration(); err != nil || len(st.Checkpoint.Readers) != 1 || st.Checkpoint.Readers[0].Cursor != 1 || st.Checkpoint.Readers[0].CursorEvent != "x" {
		t.Errorf("the next leader finds %+v, %v", st.Checkpoint, err)
	}
	o.wantRows("it reads", o.poll(relay.PollQuery{After: 1}).Rows, "y", "z")
	o.wantStatus("x", "SENT")
	o.wantStatus("y", "PENDING")
	o.sweep(0)
	entries, err := o.Governance.Audit(o.ctx, 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Action != "outbox.restart" || entries[0].Target != "from id 2" || entries[0].Actor != actor.By {
		t.Errorf("audited are %+v, %v", entries, err)
	}
}

func restartFromEnd[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := anew(t, s, "xy")
	if got := o.restart(govern.FromEnd); got.From != 3 || got.Sent != 0 || got.Passed != 2 {
		t.Errorf("Restart gives %+v", got)
	}
	o.lead("second")
	o.append(event("later", "k"))
	st := o.load()
	if err := st.CheckGeneration(); err != nil {
		t.Error(err)
	}
	o.wantRows("the next leader reads", o.poll(relay.PollQuery{After: st.Checkpoint.Readers[0].Cursor}).Rows, "later")
	o.wantStatus("x", "SENT")
	o.wantStatus("later", "PENDING")
}

// restartBeside: of four events that waited, one is in its place, one has moved
// to another id, one is read anew, and one is gone.
func restartBeside[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcdg")
	topic := r[0].Event.Topic
	o.flush(r[4].ID, relay.Flush{
		Park: []relay.Park{
			parkRow(r[0], settle.ClassPublish, 1, o.Now()), parkRow(r[1], settle.ClassPublish, 1, o.Now()), parkRow(r[2], settle.ClassPublish, 9, o.Now()),
		},
		Delay: []relay.Delay{{ID: r[4].ID, EventID: "g", Destination: topic, Key: "key-g", Due: o.Now().Add(time.Hour)}},
	})
	o.flush(r[4].ID, relay.Flush{Dead: []relay.Death{death(r[2], false)}})
	o.makeAnew("axbyc")
	got := o.restart(5)
	if got.Sent != 1 || got.Passed != 4 || got.Kept != 2 || got.Lost != 1 {
		t.Errorf("Restart gives %+v, want a kept in its place, b listed, c sent and g lost", got)
	}
	o.lead("second")
	o.parked("key-a", "a")
	o.parked("key-b")
	o.parked("key-c")
	o.wantRows("listed are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows, "b")
	o.wantRows("delayed are", o.side(relay.SideQuery{Side: relay.SideDelayed, Now: o.Now().Add(2 * time.Hour)}).Rows)
	letters, err := o.Governance.DeadLetters(o.ctx, govern.Filter{State: "any"})
	if err != nil || len(letters) != 2 {
		t.Fatalf("dead letters: %+v, %v; want that of c, closed, and one of g", letters, err)
	}
	if c, g := letters[0], letters[1]; c.EventID != "c" || c.State != govern.StateReplayed || g.EventID != "g" || g.State != govern.StateOpen || g.Class != settle.ClassRowDeleted || g.Key != "key-g" {
		t.Errorf("dead letters: %+v", letters)
	}
	o.wantStatus("a", "RETRY")
	o.wantStatus("b", "PENDING")
	o.wantStatus("c", "PENDING")
	o.wantStatus("x", "SENT")
}

func restartForgets[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := anew(t, s, "xyzw")
	o.restart(1)
	for _, id := range []string{"x", "y", "z", "w"} {
		o.wantStages(id, "appended")
	}
}
