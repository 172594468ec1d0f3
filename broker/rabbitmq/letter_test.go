package rabbitmq_test

import (
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rabbitmq"
)

// climber is a consumer that is not ours, of a group with a ladder, and another
// group of the same topic.
type climber struct {
	*rig
	t      testing.TB
	ladder bridge.Ladder
}

const otherQueue = ".other"

func newClimber(t testing.TB, at string, steps ...time.Duration) *climber {
	t.Helper()
	r := &rig{at: at, topic: "letters-" + settle.NewID()}
	r.connect(t)
	t.Cleanup(func() { _ = r.conn.Close() })
	c := &climber{rig: r, t: t, ladder: bridge.Ladder{Topic: r.topic, Group: "points", Steps: steps}}
	must(t, r.ch.ExchangeDeclare(r.topic, "topic", true, false, false, false, nil))
	_, err := r.ch.QueueDeclare(r.topic+otherQueue, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
	must(t, err)
	must(t, r.ch.QueueBind(r.topic+otherQueue, "#", r.topic, false, nil))
	must(t, r.ch.Confirm(false))
	t.Cleanup(c.remove)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *climber) queue() string { return c.topic + ".points" }

func (c *climber) remove() {
	queues, exchanges := rabbitmq.LadderForTest(c.queue(), 3)
	for _, q := range append(queues, c.topic+otherQueue) {
		_, _ = c.ch.QueueDelete(q, false, false, false)
	}
	for _, e := range append(exchanges, c.topic) {
		_ = c.ch.ExchangeDelete(e, false, false)
	}
}

func (c *climber) connection(t testing.TB) *rabbitmq.Broker {
	return c.open(t, rabbitmq.Config{Name: "letters " + c.topic})
}

func (c *climber) send(exchange, key string, m amqp.Publishing) {
	c.t.Helper()
	m.DeliveryMode = amqp.Persistent
	confirm, err := c.ch.PublishWithDeferredConfirm(exchange, key, true, false, m)
	must(c.t, err)
	if !confirm.Wait() {
		c.t.Fatal("not confirmed")
	}
}

// get receives one message, if there is one within a while.
func (c *climber) get(queue string, patience time.Duration) (amqp.Delivery, bool) {
	c.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		d, is, err := c.ch.Get(queue, false)
		must(c.t, err)
		if is || time.Now().After(until) {
			return d, is
		}
	}
}

// awaited receives what has to come.
func (c *climber) awaited(queue string) amqp.Delivery {
	c.t.Helper()
	d, is := c.get(queue, patience)
	if !is {
		c.t.Fatalf("nothing comes to %q", queue)
	}
	return d
}

// reject is what a listener of Spring's does that throws, with
// default-requeue-rejected false: so often, then it has climbed the ladder.
func (c *climber) reject(times int) {
	c.t.Helper()
	for range times {
		must(c.t, c.awaited(c.queue()).Nack(false, false))
	}
}

// republish is what Spring's RepublishMessageRecoverer does.
func (c *climber) republish(f bridgetest.Failure) {
	c.t.Helper()
	d := c.awaited(c.queue())
	headers := d.Headers
	if headers == nil {
		headers = amqp.Table{}
	}
	headers["x-exception-message"] = f.Message
	headers["x-exception-stacktrace"] = "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n\tat x\nCaused by: " +
		f.Exception + ": " + f.Message + "\n" + f.Trace
	headers["x-original-exchange"], headers["x-original-routingKey"] = d.Exchange, d.RoutingKey
	c.send("", c.queue()+".dead", amqp.Publishing{Headers: headers, Body: d.Body, MessageId: d.MessageId})
	must(c.t, d.Ack(false))
}

func (c *climber) harness(t testing.TB) bridgetest.Harness {
	receive := func(queue string) func(t testing.TB) (settle.Record, bool) {
		return func(t testing.TB) (settle.Record, bool) {
			d, is := c.get(queue, time.Second)
			if !is {
				return settle.Record{}, false
			}
			must(t, d.Ack(false))
			r := settle.Record{Raw: d.Body, Headers: map[string]string{}}
			for k, v := range d.Headers {
				if s, is := v.(string); is {
					r.Headers[k] = s
				}
			}
			r.Key = r.Headers[settle.HeaderAggregateID]
			return r, true
		}
	}
	return bridgetest.Harness{
		Broker: c.connection(t), Again: func(t testing.TB) bridge.Broker { return c.connection(t) }, Ladder: c.ladder, Patience: patience,
		Publish: func(t testing.TB, key string, value []byte, headers map[string]string) {
			table := amqp.Table{}
			for k, v := range headers {
				table[k] = v
			}
			c.send(c.topic, key, amqp.Publishing{Headers: table, Body: value})
		},
		GiveUp:  func(_ testing.TB, f bridgetest.Failure) { c.republish(f) },
		Receive: receive(c.queue()), ReceiveOther: receive(c.topic + otherQueue),
		Missing: bridge.Group{Name: "points", Dead: []string{"nowhere-" + c.topic}},
	}
}

func TestLettersOfAConsumerThatOnlyRejectsKeepTheContract(t *testing.T) {
	at := serverForTest(t)
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness {
		t.(*testing.T).Parallel() // they wait most of the time
		c := newClimber(t, at, time.Millisecond)
		h := c.harness(t)
		h.GiveUp = func(testing.TB, bridgetest.Failure) { c.reject(2) }
		h.Without = []string{bridgetest.AbilityCause}
		return h
	})
}

func TestLettersThatAConsumerRepublishesKeepTheContract(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: those of a consumer that rejects are in the plain run")
	}
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness { return newClimber(t, at, time.Minute).harness(t) })
}
