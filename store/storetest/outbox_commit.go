package storetest

import (
	"context"
	"reflect"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func commitCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a leader finds the readers of the newest checkpoint and the events at their cursors", stateComesBack[Tx]},
		{"a commit is all or nothing", commitWhole[Tx]},
		{"a commit whose context is done leaves nothing", commitCancelled[Tx]},
		{"rows move from side to side in one commit", rowsMove[Tx]},
	}
}

func stateComesBack[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	if st := o.load(); st.Checkpoint.Number != 0 || len(st.Checkpoint.Readers) != 0 || st.ExtraPending || !st.NextDelayed.IsZero() || st.MaxID != 0 {
		t.Fatalf("state of a new table is %+v", st)
	}
	r := o.appendKeys("abcde")
	o.flush(1, relay.Flush{})
	want := []relay.Reader{
		{Cursor: r[3].ID, CursorEvent: "d", Open: []int64{r[0].ID, r[2].ID}},
		{Destination: "slow", Cursor: r[1].ID, CursorEvent: "b"},
	}
	o.flush(0, relay.Flush{Checkpoint: relay.Checkpoint{Readers: want}})
	st := o.load()
	if st.Checkpoint.Number != o.number || !reflect.DeepEqual(st.Checkpoint.Readers, want) {
		t.Errorf("checkpoint is %+v, want number %d and %+v", st.Checkpoint, o.number, want)
	}
	want = []relay.Reader{
		{Cursor: r[3].ID, CursorEvent: "d", Open: []int64{r[2].ID},
			Routing: []relay.Routing{{Routes: []relay.Route{{EventType: "a*", Broker: "x"}}}, {After: r[1].ID, Routes: []relay.Route{{Topic: "slow", Broker: "y", As: "é\"@"}}}},
			Routed:  []relay.Reader{{Destination: "slow@y", Cursor: r[1].ID, CursorEvent: "b", Open: []int64{r[0].ID}, Topics: []string{"slow", "t"}}}},
		{Destination: "slow", Cursor: r[1].ID, CursorEvent: "b", Open: []int64{r[0].ID}},
	}
	o.flush(0, relay.Flush{Checkpoint: relay.Checkpoint{Readers: want}})
	if st = o.load(); !reflect.DeepEqual(st.Checkpoint.Readers, want) {
		t.Errorf("checkpoint with routes is %+v, want %+v", st.Checkpoint, want)
	}
	if got := st.CursorEvents; got[r[3].ID] != "d" || got[r[1].ID] != "b" || st.MaxID != r[4].ID {
		t.Errorf("events at the cursors are %v and the highest id is %d", got, st.MaxID)
	}
	if err := o.Vanish(o.ctx, "d"); err != nil {
		t.Fatalf("delete a row: %v", err)
	}
	if got := o.load().CursorEvents[r[3].ID]; got != "" {
		t.Errorf("the event at a cursor whose row is gone is %q", got)
	}
}

func commitWhole[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	o.flush(0, relay.Flush{})
	o.number-- // this number is taken: the checkpoint can't be written
	err := o.tryFlush(r[2].ID, relay.Flush{
		Sent:  []relay.Sent{sentRow(r[0], relay.FromLog)},
		Park:  []relay.Park{parkRow(r[1], settle.ClassPublish, 1, o.Now())},
		Delay: []relay.Delay{{ID: r[2].ID, EventID: "c", Destination: r[2].Event.Topic, Key: "key-c", Due: o.Now()}},
	})
	if err == nil {
		t.Fatal("a checkpoint number is written twice")
	}
	if st := o.load(); len(st.Parked) != 0 || !st.NextDelayed.IsZero() {
		t.Errorf("a commit that failed left parked keys %v and a delayed row due %v", st.Parked, st.NextDelayed)
	}
	for _, id := range []string{"a", "b", "c"} {
		o.wantStatus(id, "PENDING")
	}
}

func commitCancelled[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	ctx, cancel := context.WithCancel(o.ctx)
	cancel()
	f := relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: r[0].ID}}}, Park: []relay.Park{parkRow(r[0], settle.ClassPublish, 1, o.Now())}}
	if err := o.Store.Commit(ctx, o.lease, f); err == nil {
		t.Error("a commit whose context is done succeeds")
	}
	if st := o.load(); st.Checkpoint.Number != 0 || len(st.Parked) != 0 {
		t.Errorf("it left checkpoint %d and parked keys %v", st.Checkpoint.Number, st.Parked)
	}
}

func rowsMove[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	topic := r[0].Event.Topic
	o.flush(r[1].ID, relay.Flush{Delay: []relay.Delay{
		{ID: r[0].ID, EventID: "a", Destination: topic, Key: "key-a", Due: o.Now()},
		{ID: r[1].ID, EventID: "b", Destination: topic, Key: "key-b", Due: o.Now()},
	}})
	park := parkRow(r[0], settle.ClassPublish, 1, o.Now())
	park.From = relay.FromDelayed
	o.flush(r[1].ID, relay.Flush{Park: []relay.Park{park}, Sent: []relay.Sent{sentRow(r[1], relay.FromDelayed)}})
	if rows := o.side(relay.SideQuery{Side: relay.SideDelayed, Now: o.Now()}).Rows; len(rows) != 0 {
		t.Errorf("delayed rows that were sent or parked are still there: %v", rowIDs(rows))
	}
	if got := o.parkedKeys(); got != "["+topic+"/key-a:1]" {
		t.Errorf("parked keys are %s", got)
	}
	o.wantStatus("a", "RETRY")
	o.wantStatus("b", "SENT")
}
