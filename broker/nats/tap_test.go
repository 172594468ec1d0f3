package nats_test

import (
	"fmt"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
)

func TestATapReadsTheWholeLogInOrderAndPlantsRecordsOnce(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b, err := nats.Open(t.Context(), s.URL(), nats.Config{Declare: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	tap, err := nats.OpenTap(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	if _, last, err := tap.Bounds(t.Context(), settle.DefaultTopic); last != 0 || err != nil {
		t.Fatalf("a topic that is not there ends at %d, %v", last, err)
	}
	const n = 1200 // more than one pull
	var batch []settle.Message
	for i := range n {
		id := fmt.Sprintf("e%04d", i)
		batch = append(batch, settle.Message{ID: id, Event: &settle.Event{ID: id, Type: "t", AggregateID: fmt.Sprint("k", i%7), AggregateSeq: int64(i/7 + 1), Payload: []byte(`{"a": 1}`)}})
	}
	receipts := b.Publish(t.Context(), batch)
	cut := []byte(`{"eventId":"cut`)
	at, err := tap.Plant(t.Context(), settle.DefaultTopic, 3, "foreign", nil, cut)
	if err != nil || at.Offset != n+1 || at.Partition != 3 {
		t.Fatalf("planted at %+v, %v", at, err)
	}
	if again, err := tap.Plant(t.Context(), settle.DefaultTopic, 3, "foreign", nil, cut); again != at || err != nil {
		t.Fatalf("planted again at %+v, %v", again, err)
	}
	first, last, err := tap.Bounds(t.Context(), settle.DefaultTopic)
	if first != 1 || last != n+1 || err != nil {
		t.Fatalf("bounds %d to %d, %v", first, last, err)
	}
	var got []settle.Record
	if err := tap.ReadLog(t.Context(), settle.DefaultTopic, first, last, func(r settle.Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != n+1 {
		t.Fatalf("read %d records", len(got))
	}
	for i, r := range got[:n] {
		if receipts[i].Err != nil || r.At != receipts[i].At || r.Event.ID != batch[i].ID || r.Event.AggregateSeq != int64(i/7+1) || string(r.Event.Payload) != `{"a": 1}` {
			t.Fatalf("record %d is %+v at %+v; published %+v", i, r.Event, r.At, receipts[i])
		}
	}
	if r := got[n]; r.Event != nil || r.DecodeErr == nil || string(r.Raw) != string(cut) || r.At != at {
		t.Errorf("the foreign record is %+v", r)
	}
	some := 0
	if err := tap.ReadLog(t.Context(), settle.DefaultTopic, 100, 109, func(r settle.Record) error { some++; return nil }); err != nil || some != 10 {
		t.Errorf("read %d records of 10, %v", some, err)
	}
}
