package rocketmq_test

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

func TestRocketMQCarriesCloudEventsBothWays(t *testing.T) {
	r := newRig(t, serverForTest(t))
	sent := map[string]*settle.Event{}
	for _, w := range []cloudevents.Wire{cloudevents.Envelope, cloudevents.Binary, cloudevents.Structured} {
		cfg := r.config()
		cfg.Wire = w
		b := r.open(t, cfg)
		e := &settle.Event{ID: "e " + w.String() + " €", Type: "order.created", AggregateID: "o-1", AggregateSeq: 4, Topic: r.topic, Version: 2, Payload: []byte(`{"n": 1.10}`), Headers: map[string]string{"tenant": "x", "X-Odd": "y", "empty": ""}}
		if got := b.Publish(t.Context(), []settle.Message{{ID: e.ID, Event: e, Source: "orders"}}); got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		sent[e.ID] = e
	}
	// As Settle writes them, and as Java's binding does.
	for _, prefix := range []string{"ce_", "CE_"} {
		r.foreign(t, "k", []byte(`{"a":1}`), map[string]string{prefix + "specversion": "1.0", prefix + "id": "made-1", prefix + "type": "com.example.made", prefix + "source": "/made", prefix + "subject": "s €", prefix + "comexample": "kept", "CE_contenttype": "application/json"})
	}
	b := r.open(t, r.config())
	t.Cleanup(func() { _ = b.Close() })
	in := deliverTo(t, b, "group-"+settle.NewID(), r.topic)
	in.await(t, len(sent)+2)
	in.stop(t)
	for _, found := range in.records {
		if found.DecodeErr != nil {
			t.Fatal(found.DecodeErr)
		}
		e := found.Event
		if want := sent[e.ID]; want != nil {
			if _, is := e.Headers["empty"]; !is || string(e.Payload) != string(want.Payload) || e.AggregateSeq != 4 || e.Version != 2 || e.Headers["X-Odd"] != "y" || e.Headers["tenant"] != "x" || found.Headers[settle.HeaderProducer] != "orders" {
				t.Errorf("%+v, headers %v", e, found.Headers)
			}
		} else if e.ID != "made-1@/made" || e.AggregateID != "s €" || e.Headers["comexample"] != "kept" || string(e.Payload) != `{"a":1}` {
			t.Errorf("%+v", e)
		}
	}
}
