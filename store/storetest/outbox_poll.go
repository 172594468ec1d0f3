package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func pollCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a page is bounded by rows and says that it is cut", pageRows[Tx]},
		{"a page is bounded by bytes, says that it is cut, and takes a large first row", pageBytes[Tx]},
		{"a page can be bounded by an id", pageUpTo[Tx]},
		{"holes are read again, in order with what is above the cursor", holesRead[Tx]},
		{"a page that its holes fill is cut", holesFill[Tx]},
		{"a page tells the newest checkpoint", pageCheckpoint[Tx]},
		{"the version of the controls changes with each act", controlVersion[Tx]},
		{"owners can be asked and end", ownersEnd[Tx]},
	}
}

func (o *outbox[Tx]) appendKeys(ids string) []relay.Row {
	o.Helper()
	names := strings.Split(ids, "")
	for _, id := range names {
		o.append(event(id, "key-"+id))
	}
	return o.rows(names...)
}

func pageRows[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.appendKeys("abcde")
	p := o.poll(relay.PollQuery{MaxRows: 2})
	o.wantRows("the first page has", p.Rows, "a", "b")
	if p.Complete {
		t.Error("a page of 2 of 5 rows says that it is complete")
	}
	p = o.poll(relay.PollQuery{After: p.Rows[1].ID, MaxRows: 3})
	o.wantRows("the second page has", p.Rows, "c", "d", "e")
	if !p.Complete {
		t.Error("a page with all there is says that it is cut")
	}
}

func pageBytes[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	for _, id := range []string{"a", "b", "c"} {
		e := event(id, "k")
		e.Payload = []byte(`"` + strings.Repeat("x", 1000) + `"`)
		o.append(e)
	}
	p := o.poll(relay.PollQuery{MaxBytes: 2500})
	o.wantRows("a page of 2500 bytes has", p.Rows, "a", "b")
	if p.Complete {
		t.Error("a page cut by bytes says that it is complete")
	}
	p = o.poll(relay.PollQuery{MaxBytes: 10})
	o.wantRows("a page of 10 bytes has", p.Rows, "a")
	if p.Complete {
		t.Error("a page cut behind its first row says that it is complete")
	}
}

func pageUpTo[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	r := o.appendKeys("abcd")
	p := o.poll(relay.PollQuery{After: r[0].ID, UpTo: r[2].ID})
	o.wantRows("a page with an end has", p.Rows, "b", "c")
	if !p.Complete {
		t.Error("a page that reached its end says that it is cut")
	}
	p = o.poll(relay.PollQuery{After: r[2].ID, UpTo: r[2].ID, Holes: []int64{r[1].ID}})
	o.wantRows("a page of holes only has", p.Rows, "b")
}

func holesRead[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	r := o.appendKeys("abcdef")
	missing := r[5].ID + 10
	p := o.poll(relay.PollQuery{After: r[3].ID, Holes: []int64{r[0].ID, r[2].ID, missing}})
	o.wantRows("holes and rows above are", p.Rows, "a", "c", "e", "f")
	if !p.Complete {
		t.Error("a page with all there is says that it is cut")
	}
	if err := o.Insert(o.ctx, missing, event("late", "k")); err != nil {
		t.Fatalf("insert a late row: %v", err)
	}
	p = o.poll(relay.PollQuery{After: missing + 5, Holes: []int64{missing}})
	o.wantRows("a hole that was filled gives", p.Rows, "late")
}

func holesFill[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	r := o.appendKeys("abcd")
	q := relay.PollQuery{After: r[2].ID, Holes: []int64{r[0].ID, r[1].ID, r[2].ID}, MaxRows: 2}
	p := o.poll(q)
	o.wantRows("a page of 2 has", p.Rows, "a", "b")
	if p.Complete {
		t.Error("a page that was cut among its holes says that it is complete")
	}
	q.MaxRows = 3
	p = o.poll(q)
	o.wantRows("a page of 3 has", p.Rows, "a", "b", "c")
	if p.Complete {
		t.Error("a page that was cut behind its holes says that it is complete")
	}
}

func pageCheckpoint[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	if p := o.poll(relay.PollQuery{}); p.Epoch != 0 || p.Number != 0 {
		t.Fatalf("checkpoint (%d,%d) of a new table", p.Epoch, p.Number)
	}
	o.lead("first")
	for range 3 {
		o.flush(0, relay.Flush{})
		if p := o.poll(relay.PollQuery{}); p.Epoch != o.lease.Epoch || p.Number != o.number {
			t.Fatalf("the newest checkpoint is (%d,%d), want (%d,%d)", p.Epoch, p.Number, o.lease.Epoch, o.number)
		}
	}
	// A higher epoch is newer, whatever its number.
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		t.Fatalf("Resign: %v", err)
	}
	o.lead("second")
	o.number = 0
	o.flush(0, relay.Flush{})
	if p := o.poll(relay.PollQuery{}); p.Epoch != o.lease.Epoch || p.Number != 1 {
		t.Fatalf("the newest checkpoint is (%d,%d), want (%d,1)", p.Epoch, p.Number, o.lease.Epoch)
	}
}

func controlVersion[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.append(event("e1", "k"))
	act := govern.Act{By: "a person", Reason: "a test"}
	version := o.poll(relay.PollQuery{}).Controls
	for _, c := range []struct {
		name string
		do   func() error
		want settle.Control
		skip string
	}{
		{"pause", func() error { return o.Governance.Pause(o.ctx, act, "topic", "t") }, settle.Control{Kind: "topic", Name: "t"}, ""},
		{"resume", func() error { return o.Governance.Resume(o.ctx, act, "topic", "t") }, settle.Control{}, ""},
		{"skip", func() error { return o.Governance.Skip(o.ctx, act, "e1") }, settle.Control{}, "e1"},
	} {
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		ctl, err := o.Store.Controls(o.ctx)
		if err != nil {
			t.Fatalf("Controls: %v", err)
		}
		if now := o.poll(relay.PollQuery{}).Controls; now == version || now != ctl.Version {
			t.Errorf("version after %s is %d in a page and %d in the controls, it was %d", c.name, now, ctl.Version, version)
		}
		version = ctl.Version
		if got := len(ctl.Rows) > 0 && ctl.Rows[0] == c.want; got != (c.want.Kind != "") {
			t.Errorf("controls after %s are %+v", c.name, ctl.Rows)
		}
		if got := strings.Join(ctl.Skips, ","); got != c.skip {
			t.Errorf("skips after %s are %q, want %q", c.name, got, c.skip)
		}
	}
}

func ownersEnd[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	token, err := o.Store.Owners(o.ctx, relay.Evidence{})
	if err != nil {
		t.Fatalf("Owners: %v", err)
	}
	if !token.Known {
		return
	}
	for range 100 {
		now, err := o.Store.Owners(o.ctx, token)
		if err != nil {
			t.Fatalf("Owners: %v", err)
		}
		if now.Clear {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("no transaction is open, and the owners never end")
}
