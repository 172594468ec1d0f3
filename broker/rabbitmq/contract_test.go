package rabbitmq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/internal/services"
)

// patience is what a busy machine needs to make queues and move them.
const patience = time.Minute

func TestRabbitMQKeepsTheContract(t *testing.T) {
	at := serverForTest(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		h := newRig(t, at).harness(t)
		h.Without = []string{brokertest.AbilityRestart}
		return h
	})
}

func serverForTest(t testing.TB) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
}

// rig is a broker and a topic of the test's own, and a queue to which all of
// the topic goes, as a log.
type rig struct {
	at, topic string
	conn      *amqp.Connection
	ch        *amqp.Channel
	groups    []string
	logged    []settle.Record
}

const partitions = 4

func newRig(t testing.TB, at string) *rig {
	t.Helper()
	r := &rig{at: at, topic: "suite-" + settle.NewID()}
	r.connect(t)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.open(t, r.config()).Close()
	r.logs(t)
	t.Cleanup(r.remove)
	return r
}

// connect goes to the first of the hosts that answers.
func (r *rig) connect(t testing.TB) {
	t.Helper()
	_, rest, _ := strings.Cut(r.at, "://")
	login, rest, _ := strings.Cut(rest, "@")
	hosts, _, _ := strings.Cut(rest, "/")
	var err error
	for host := range strings.SplitSeq(hosts, ",") {
		if r.conn, err = amqp.Dial("amqp://" + login + "@" + host + "/"); err == nil {
			r.ch = r.channel(t)
			return
		}
	}
	t.Fatal(err)
}

func (r *rig) channel(t testing.TB) *amqp.Channel {
	t.Helper()
	ch, err := r.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// logs binds a queue to the topic.
func (r *rig) logs(t testing.TB) {
	t.Helper()
	if _, err := r.ch.QueueDeclare(r.topic+".log", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := r.ch.QueueBind(r.topic+".log", "#", r.topic, false, nil); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) remove() {
	for _, q := range rabbitmq.QueuesForTest(r.topic, r.groups, partitions) {
		_, _ = r.ch.QueueDelete(q, false, false, false)
	}
	_, _ = r.ch.QueueDelete(r.topic+".log", false, false, false)
	for _, g := range r.groups {
		_ = r.ch.ExchangeDelete(r.topic+"."+g, false, false)
	}
	_ = r.ch.ExchangeDelete(r.topic, false, false)
}

func (r *rig) config(groups ...string) rabbitmq.Config {
	return rabbitmq.Config{Topics: []string{r.topic}, Groups: groups, Partitions: partitions, DrainTimeout: time.Second}
}

func (r *rig) open(t testing.TB, cfg rabbitmq.Config) *rabbitmq.Broker {
	t.Helper()
	b, err := rabbitmq.Open(context.WithoutCancel(t.Context()), r.at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// introduce declares a group, which is removed with the topic.
func (r *rig) introduce(t testing.TB, group string) {
	t.Helper()
	r.groups = append(r.groups, group)
	if err := r.open(t, r.config(group)).Close(); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) harness(t testing.TB) brokertest.Harness {
	return brokertest.Harness{
		Broker: r.open(t, r.config()), Topic: r.topic, MissingTopic: "missing-" + settle.NewID(), AssignsPartitions: true, Forgets: true, Patience: patience,
		Introduce: r.introduce,
		Again:     func(t testing.TB) settle.Broker { return r.open(t, r.config()) },
		Log:       r.log,
		Foreign:   r.foreign,
		Lossy: func(t testing.TB) (settle.Broker, func() int) {
			d, cfg := newLossyDial(), r.config()
			cfg.Dial = d.dial
			return r.open(t, cfg), d.lose
		},
		Recreate: func(t testing.TB) {
			r.remove()
			r.open(t, r.config()).Close()
			r.logs(t)
		},
	}
}

func (r *rig) foreign(t testing.TB, key string, value []byte, headers map[string]string) {
	t.Helper()
	table := amqp.Table{settle.HeaderAggregateID: key}
	for k, v := range headers {
		table[k] = v
	}
	err := r.ch.PublishWithContext(t.Context(), r.topic, "", true, false, amqp.Publishing{Headers: table, Body: value, DeliveryMode: amqp.Persistent})
	if err != nil {
		t.Fatal(err)
	}
}

// log reads the log's queue up to a mark that it puts there, and keeps what it
// has read: a queue that has just come back does not know how much it holds.
// RabbitMQ says of a record in which exchange it came, and no more.
func (r *rig) log(t testing.TB) []settle.Record {
	t.Helper()
	ch := r.channel(t)
	defer func() { _ = ch.Close() }()
	mark := settle.NewID()
	err := ch.PublishWithContext(t.Context(), "", r.topic+".log", true, false, amqp.Publishing{MessageId: mark, DeliveryMode: amqp.Persistent})
	if err == nil {
		err = ch.Qos(1000, 0, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := ch.Consume(r.topic+".log", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for {
		select {
		case d := <-found:
			if err := d.Ack(false); err != nil {
				t.Fatal(err)
			}
			if d.MessageId == mark {
				return r.logged
			}
			rec := settle.Record{Position: int64(len(r.logged)), Raw: d.Body, At: settle.Coordinates{Topic: d.Exchange}}
			rec.Event, rec.DecodeErr = settle.DecodeEnvelope(d.Body, nil)
			r.logged = append(r.logged, rec)
		case <-deadline:
			t.Fatalf("the log can't be read to its end, after %d records", len(r.logged))
		}
	}
}
