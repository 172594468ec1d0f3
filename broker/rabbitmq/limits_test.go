package rabbitmq_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// Headers are in one frame, and a broker ends the connection of one that is too
// large, and with it what others have in flight there.
func TestTheLargestEventThatAnOutboxTakesArrivesAsItWas(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	b := closing(t, r.open(t, r.config()))
	m := event(r.topic, strings.Repeat("k", settle.MaxField-2), 1) // its id is two longer
	m.Event.Type = strings.Repeat("t", settle.MaxField)
	m.Event.Payload = []byte(`"` + strings.Repeat("p", settle.MaxPayload-2) + `"`)
	// Such a name is packed, and what is packed is escaped to six times its size.
	name := strings.Repeat("n", 200)
	m.Event.Headers = map[string]string{name: strings.Repeat("<", settle.MaxHeaders-len(name))}
	batch := append(events(r.topic, "beside", 5), m)
	publishAll(t, b, batch)
	c := newCollector()
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "all events", func() bool { return c.has(batch) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range c.records {
		if rec.Event.ID == m.Event.ID && (rec.Event.Type != m.Event.Type || rec.Event.AggregateID != m.Event.AggregateID || string(rec.Event.Payload) != string(m.Event.Payload) || rec.Event.Headers[name] != m.Event.Headers[name]) {
			t.Errorf("it has arrived as %.500v", rec.Event)
		}
	}
}

func TestAForeignRecordWithHeadersOfAllKindsAndSizesHoldsUpNobody(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	long := strings.Repeat("v", 100_000)
	for _, headers := range []amqp.Table{
		{settle.HeaderAggregateID: "ka", "x-long": long},
		{settle.HeaderAggregateID: "ka", "x-table": amqp.Table{"of": amqp.Table{"more": int32(1)}}, "x-list": []any{"a", int64(2), true, nil}, "x-time": time.Unix(1, 0), "x-float": 1.5, "x-bytes": []byte{0xff}, "x-none": nil},
		{settle.HeaderAggregateID: int64(7)},
	} {
		err := r.ch.PublishWithContext(t.Context(), r.topic, "their.type", true, false, amqp.Publishing{Headers: headers, Body: []byte("theirs"), DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := closing(t, r.open(t, r.config()))
	batch := events(r.topic, "k", 26)
	publishAll(t, b, batch)
	c := newCollector()
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "theirs and ours", func() bool { return c.has(batch) && len(c.records) >= len(batch)+3 })
	c.mu.Lock()
	defer c.mu.Unlock()
	theirs := map[string]settle.Record{}
	for _, rec := range c.records {
		if rec.DecodeErr != nil {
			theirs[rec.Headers["x-long"]+rec.Headers["x-float"]] = rec
		}
	}
	if len(theirs) != 3 || theirs[long].Key != "ka" || theirs["1.5"].Headers["x-list"] != `["a",2,true,null]` || theirs["1.5"].Headers["x-time"] != "1970-01-01T00:00:01Z" || theirs[""].Key != "7" || string(theirs[""].Raw) != "theirs" {
		t.Errorf("theirs have arrived as %.2000v", theirs)
	}
}

func TestWhatTheBrokerDeliversTooOftenGoesToTheDeadOnesOfItsGroup(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.groups = append(r.groups, "g")
	cfg := r.config("g")
	cfg.DeliveryLimit = 2
	b := closing(t, r.open(t, cfg))
	batch := events(r.topic, "k", 1)
	publishAll(t, b, batch)
	returned := r.reject(t)
	dead, err := r.channel(t).Consume(r.topic+".g.dead", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-dead:
		if n := len(returned); d.MessageId != batch[0].ID || n != cfg.DeliveryLimit+1 {
			t.Errorf("event %q is among the dead ones after %d deliveries, want %q after %d", d.MessageId, n, batch[0].ID, cfg.DeliveryLimit+1)
		}
	case <-time.After(patience):
		t.Fatalf("after %d deliveries it is not among the dead ones", len(returned))
	}
}

// reject gives back for ever what comes for a group, and tells each time.
func (r *rig) reject(t *testing.T) (returned chan struct{}) {
	t.Helper()
	returned = make(chan struct{}, 1000)
	for n := range partitions {
		found, err := r.ch.Consume(rabbitQueue(r.topic, "g", n), "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the channel
			for d := range found {
				returned <- struct{}{}
				_ = d.Nack(false, true)
			}
		}()
	}
	return returned
}

func TestWhatIsDeliveredTooOftenStaysUntilTheDeadOnesAreThere(t *testing.T) {
	o := newOwn(t)
	// It is tried again so often; three minutes by default.
	o.ctl("eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).")
	r := newRig(t, o.At().String())
	r.groups = append(r.groups, "g")
	cfg := r.config("g")
	cfg.DeliveryLimit = 1
	b := closing(t, r.open(t, cfg))
	if err := deleted(r, r.topic+".g.dead"); err != nil {
		t.Fatal(err)
	}
	batch := events(r.topic, "k", 3)
	publishAll(t, b, batch)
	returned := r.reject(t)
	for range 2 * len(batch) {
		select {
		case <-returned:
		case <-time.After(patience):
			t.Fatal("it is not delivered too often")
		}
	}
	if err := r.open(t, cfg).Close(); err != nil { // declares what is missing
		t.Fatal(err)
	}
	dead, err := r.channel(t).Consume(r.topic+".g.dead", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for seen := map[string]bool{}; len(seen) < len(batch); {
		select {
		case d := <-dead:
			seen[d.MessageId] = true
		case <-time.After(patience):
			t.Fatalf("of %d events that were delivered too often %d are among the dead ones", len(batch), len(seen))
		}
	}
}

func rabbitQueue(topic, group string, n int) string {
	return topic + "." + group + "." + string(rune('0'+n))
}

// slow is a sink whose first delivery takes until it is let go, whatever its
// context says.
type slow struct {
	*collector
	once        sync.Once
	begun, last chan struct{}
}

func (s *slow) Deliver(ctx context.Context, p settle.Partition, records []settle.Record) error {
	s.once.Do(func() {
		close(s.begun)
		<-s.last
	})
	return s.collector.Deliver(ctx, p, records)
}

func TestAHandlerThatOutlivesItsConnectionAcknowledgesNothingOfTheNext(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	away, cfg := newAway(), r.config()
	cfg.Dial = away.dial
	b := closing(t, r.open(t, cfg))
	batch := events(r.topic, "k", 52)
	publishAll(t, b, batch)
	s := &slow{collector: newCollector(), begun: make(chan struct{}), last: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{r.topic}}, s) }()
	<-s.begun
	away.leave()
	away.come()
	publishAll(t, b, events(r.topic, "l", 26)) // the connections are back
	close(s.last)
	all := append(batch, events(r.topic, "l", 26)...)
	s.await(t, "all events", func() bool { return s.has(all) })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for n := range partitions {
		if q, err := r.ch.QueueDeclarePassive(rabbitQueue(r.topic, "g", n), true, false, false, false, nil); err != nil || q.Messages != 0 {
			t.Errorf("partition %d holds %d events that were done: %v", n, q.Messages, err)
		}
	}
}
