package rabbitmq_test

import (
	"testing"

	cesdk "github.com/cloudevents/sdk-go/v2/event"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

func TestRabbitMQCarriesCloudEventsBothWays(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	sent := map[string]*settle.Event{}
	for _, w := range []cloudevents.Wire{cloudevents.Envelope, cloudevents.Binary, cloudevents.Structured} {
		cfg := r.config("g")
		cfg.Wire = w
		b := r.open(t, cfg)
		e := &settle.Event{ID: "e " + w.String() + " €", Type: "order.created", AggregateID: "o-1", AggregateSeq: 4, Topic: r.topic, Version: 2, Payload: []byte(`{"n": 1.10}`), Headers: map[string]string{"tenant": "x", "X-Odd": "y"}}
		publishAll(t, b, []settle.Message{{ID: e.ID, Event: e, Source: "orders"}})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		sent[e.ID] = e
		asOthersReadIt(t, r, w, e)
	}
	// One that says it by the header names of the binding's older form, with values
	// of AMQP's own types, and one whole event.
	header := amqp.Table{settle.HeaderAggregateID: "s", "cloudEvents:specversion": "1.0", "cloudEvents:id": "made-1", "cloudEvents:type": "com.example.made", "cloudEvents:source": "/made", "cloudEvents:subject": "s €", "cloudEvents:comexample": int64(5), "cloudEvents:flag": true}
	whole := cesdk.New()
	whole.SetID("made-2")
	whole.SetType("com.example.made")
	whole.SetSource("/made")
	whole.SetSubject("s €")
	whole.SetExtension("comexample", 5)
	whole.SetExtension("flag", true)
	if err := whole.SetData("application/json", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	value, err := whole.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []amqp.Publishing{
		{Headers: header, ContentType: "application/json", Body: []byte(`{"a":1}`)},
		{Headers: amqp.Table{settle.HeaderAggregateID: "s"}, ContentType: cesdk.ApplicationCloudEventsJSON, Body: value},
	} {
		p.DeliveryMode = amqp.Persistent
		if err := r.ch.PublishWithContext(t.Context(), r.topic, "", true, false, p); err != nil {
			t.Fatal(err)
		}
	}
	c, n := newCollector(), len(sent)+2
	b := r.open(t, r.config("g"))
	t.Cleanup(func() { _ = b.Close() })
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "all events", func() bool { return len(c.records) == n })
	for _, found := range c.records {
		if found.DecodeErr != nil {
			t.Fatal(found.DecodeErr)
		}
		e := found.Event
		if want := sent[e.ID]; want != nil {
			if string(e.Payload) != string(want.Payload) || e.AggregateSeq != 4 || e.Version != 2 || e.Headers["X-Odd"] != "y" || e.Headers["tenant"] != "x" || found.Headers[settle.HeaderProducer] != "orders" {
				t.Errorf("%+v, headers %v", e, found.Headers)
			}
		} else if e.ID != "made-1@/made" && e.ID != "made-2@/made" || e.AggregateID != "s €" || e.Headers["comexample"] != "5" || e.Headers["flag"] != "true" || string(e.Payload) != `{"a":1}` {
			t.Errorf("%+v", e)
		}
	}
}

// asOthersReadIt looks at the message as it is in a queue.
func asOthersReadIt(t *testing.T, r *rig, w cloudevents.Wire, e *settle.Event) {
	t.Helper()
	d, is, err := r.ch.Get(r.topic+".log", true)
	if err != nil || !is {
		t.Fatal("the message is not in the queue", err)
	}
	switch w {
	case cloudevents.Binary:
		for name, value := range map[string]string{"specversion": "1.0", "id": e.ID, "type": e.Type, "source": "orders", "subject": "o-1", "aggregateseq": "4", "tenant": "x"} {
			if d.Headers["cloudEvents_"+name] != value {
				t.Errorf("%s is %v", name, d.Headers["cloudEvents_"+name])
			}
		}
		if d.ContentType != "application/json" || string(d.Body) != string(e.Payload) {
			t.Errorf("%s of type %s", d.Body, d.ContentType)
		}
	case cloudevents.Structured:
		in := cesdk.New()
		if err := in.UnmarshalJSON(d.Body); err != nil || in.Validate() != nil {
			t.Fatal(err, in)
		}
		if d.ContentType != "application/cloudevents+json; charset=utf-8" || in.ID() != e.ID || in.Subject() != "o-1" || in.Source() != "orders" || string(in.Data()) != string(e.Payload) {
			t.Errorf("type %s: %s", d.ContentType, in)
		}
	}
}
