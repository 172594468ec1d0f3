package rabbitmq_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
)

func TestATapReadsBackWhatCameWritesWhatAForeignerWouldAndRemoves(t *testing.T) {
	at := serverForTest(t)
	tap, err := rabbitmq.OpenTap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	if err := tap.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	topic, groups := "tap-"+settle.NewID(), []string{"g", "h"}
	for range 2 {
		if err := tap.Keep(t.Context(), topic, groups); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = tap.Remove(t.Context(), topic, groups) })
	if got := readTap(t, tap, topic); len(got) != 0 {
		t.Errorf("before anything came there is %v", got)
	}
	b, err := rabbitmq.Open(t.Context(), at, rabbitmq.Config{Topics: []string{topic}, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	batch := append(events(topic, "k", 52), events(topic, "l", 52)...)
	publishAll(t, b, batch)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	cut := []byte(`{"eventId":"cut`)
	planted, err := tap.Plant(t.Context(), topic, 3, "foreign", map[string]string{"h": "v", "x-death": "w"}, cut)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tap.Plant(t.Context(), topic, 3, "foreign", nil, cut); again != planted || err != nil {
		t.Errorf("under the same id again at %+v, %v; want %+v", again, err, planted)
	}
	got := readTap(t, tap, topic)
	if len(got) != len(batch)+1 {
		t.Errorf("%d records are read back of %d", len(got), len(batch)+1)
	}
	last := map[string]int64{}
	for _, rec := range got[:len(batch)] {
		if e := rec.Event; e == nil || e.AggregateSeq != last[e.AggregateID]+1 {
			t.Errorf("%+v comes behind event %d", e, last[e.AggregateID])
		} else {
			last[e.AggregateID]++
		}
	}
	end := got[len(batch)]
	if end.At != planted || !bytes.Equal(end.Raw, cut) || end.DecodeErr == nil || end.Headers["h"] != "v" || end.Headers["x-death"] != "w" || len(end.Headers) != 2 {
		t.Errorf("planted at %+v is %+v", planted, end)
	}
	for _, place := range []float64{0, 0.5, 0.999, 1} {
		var some []int64
		err := tap.ReadSome(t.Context(), topic, place, 4, func(rec settle.Record) error { some = append(some, rec.At.Offset); return nil })
		if len(some) != 4 || err != nil {
			t.Errorf("at %v there are %v, %v; want 4", place, some, err)
		}
	}
	stop := errors.New("enough")
	if err := tap.ReadAll(t.Context(), topic, func(settle.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("who has enough is told %v", err)
	}
	ledByOne(t, tap, at, topic)
	for range 2 {
		if err := tap.Remove(t.Context(), topic, append(groups, "missing")); err != nil {
			t.Error(err)
		}
	}
	nothingIsLeft(t, at, topic, groups)
}

// ledByOne asks the management API, which hears of queues late.
func ledByOne(t *testing.T, tap *rabbitmq.Tap, at, topic string) {
	t.Helper()
	u := parse(t, at)
	admins := map[string]string{u.Host: "http://" + above(t, u, 1)}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		leads, whole, err := tap.Leads(t.Context(), topic, admins)
		if queues := 2 * (8 + 2); err == nil && whole && leads[u.Host] >= queues && len(leads) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%v lead, all copies in place: %v, %v", leads, whole, err)
			break
		}
	}
	admins["127.0.0.1:1"] = "http://127.0.0.1:1"
	if leads, whole, err := tap.Leads(t.Context(), topic, admins); err != nil || whole || len(leads) != 1 {
		t.Errorf("of two nodes one is there, %v lead, all copies in place: %v, %v", leads, whole, err)
	}
}

func readTap(t *testing.T, tap *rabbitmq.Tap, topic string) (all []settle.Record) {
	t.Helper()
	last := int64(-1)
	err := tap.ReadAll(t.Context(), topic, func(rec settle.Record) error {
		if rec.At.Offset <= last {
			t.Errorf("%+v comes behind place %d", rec.At, last)
		}
		last = rec.At.Offset
		all = append(all, rec)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func nothingIsLeft(t *testing.T, at, topic string, groups []string) {
	t.Helper()
	r := &rig{at: at, topic: topic}
	r.connect(t)
	defer func() { _ = r.conn.Close() }()
	for _, queue := range append(rabbitmq.QueuesForTest(topic, groups, 8), topic+".log") {
		gone(t, r, queue, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			return err
		})
	}
	for _, exchange := range []string{topic, topic + ".g", topic + ".h"} {
		gone(t, r, exchange, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "fanout", true, false, false, false, nil)
		})
	}
}

func gone(t *testing.T, r *rig, what string, look func(ch *amqp.Channel) error) {
	t.Helper()
	var said *amqp.Error
	if err := look(r.channel(t)); !errors.As(err, &said) || said.Code != amqp.NotFound {
		t.Errorf("%s is left: %v", what, err)
	}
}

// TestATapThatDidNotHearTheConfirmFindsWhatItHasStored plants through a connection
// that ends before the confirm comes.
func TestATapThatDidNotHearTheConfirmFindsWhatItHasStored(t *testing.T) {
	at := serverForTest(t)
	d := newLossyDial()
	tap, err := rabbitmq.OpenTapForTest(at, d.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	topic := "tap-" + settle.NewID()
	if err := tap.Keep(t.Context(), topic, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tap.Remove(t.Context(), topic, nil) })
	var places []settle.Coordinates
	for n := range 3 {
		id := fmt.Sprint("planted-", n)
		if n == 1 {
			d.spared.Store(1) // that of the mark
			d.losing.Store(true)
			if _, err := tap.Plant(t.Context(), topic, 0, id, nil, []byte("x")); err == nil {
				t.Error("a lost confirm is none")
			}
			if n := d.lost.Load(); n != 1 {
				t.Fatalf("%d confirms were lost", n)
			}
		}
		place, err := tap.Plant(t.Context(), topic, 0, id, nil, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place)
	}
	all := readTap(t, tap, topic)
	if len(all) != len(places) {
		t.Fatalf("%d records are there, want %d", len(all), len(places))
	}
	for i, rec := range all {
		if rec.At != places[i] {
			t.Errorf("record %d is at %+v, want %+v", i, rec.At, places[i])
		}
	}
}
