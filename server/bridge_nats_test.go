package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestADeadLetterOfAJetStreamConsumerThatIsNotOursIsBroughtInAndSentBack(t *testing.T) {
	p := port(t)
	broker(t, t.TempDir(), "canary", p)
	at := fmt.Sprintf("nats://canary@127.0.0.1:%d", p)
	nc, err := nats.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// Two attempts: as many as a ladder of one step has.
	deadAndBack(t, at, "orders", "stock", 50*time.Millisecond, &durable{js: js, streams: []string{"orders", "settle-retry-orders-stock"}}, 2)
}

// durable is a consumer of NATS that reads what comes to all, and what goes back to it
// alone. One pull of each is open at any time, as a consumer has that runs.
type durable struct {
	js      jetstream.JetStream
	streams []string
	coming  chan jetstream.Msg
}

func (d *durable) next(t *testing.T) (string, map[string]string, func(), func()) {
	t.Helper()
	if d.coming == nil {
		d.coming = make(chan jetstream.Msg, 100)
		for _, stream := range d.streams {
			at, err := d.js.Consumer(t.Context(), stream, "stock")
			if err != nil {
				t.Fatal(err)
			}
			reading, err := at.Consume(func(m jetstream.Msg) { d.coming <- m })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(reading.Stop)
		}
	}
	select {
	case m := <-d.coming:
		headers := map[string]string{}
		for name, values := range m.Headers() {
			headers[name] = values[0]
		}
		return string(m.Data()), headers, func() {}, func() {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Error(err)
			}
		}
	case <-time.After(patience):
		t.Fatal("nothing comes")
		return "", nil, nil, nil
	}
}
