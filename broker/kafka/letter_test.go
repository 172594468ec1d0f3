package kafka_test

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/kafka"
)

// climber is a consumer that is not ours, of a group with a ladder, and another
// group of the same topic.
type climber struct {
	*rig
	t      testing.TB
	ladder bridge.Ladder
	own    *pile
	other  *pile
}

// pile is what a group has read and not received yet.
type pile struct {
	t    testing.TB
	cl   *kgo.Client
	read []*kgo.Record
}

func newClimber(t testing.TB, at string) *climber {
	t.Helper()
	r := newRig(t, at)
	r.make(t, 3, nil)
	c := &climber{rig: r, t: t, ladder: bridge.Ladder{Topic: r.topic, Group: "g" + r.topic[len(r.topic)-12:], Steps: []time.Duration{time.Second}}}
	t.Cleanup(func() {
		_, _ = r.admin.DeleteTopics(context.Background(), c.retry(), c.dead())
		_, _ = r.admin.DeleteGroups(context.Background(), "settle-bridge."+c.ladder.Group)
	})
	return c
}

func (c *climber) retry() string { return c.topic + "-" + c.ladder.Group + "-retry-1000" }
func (c *climber) dead() string  { return c.topic + "-" + c.ladder.Group + "-dlt" }

func (c *climber) pile(topics ...string) *pile {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond))
	must(c.t, err)
	c.t.Cleanup(cl.Close)
	return &pile{t: c.t, cl: cl}
}

// next receives a record, if there is one within a while.
func (p *pile) next(patience time.Duration) (*kgo.Record, bool) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for len(p.read) == 0 {
		p.read = p.cl.PollFetches(ctx).Records()
		if len(p.read) == 0 && ctx.Err() != nil {
			return nil, false
		}
	}
	r := p.read[0]
	p.read = p.read[1:]
	return r, true
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *climber) produce(r *kgo.Record) {
	c.t.Helper()
	must(c.t, c.raw.ProduceSync(c.t.Context(), r).FirstErr())
}

// giveUp is what Spring's DefaultErrorHandler does with its
// DeadLetterPublishingRecoverer.
func (c *climber) giveUp(f bridgetest.Failure) {
	c.t.Helper()
	r, is := c.own.next(patience)
	if !is {
		c.t.Fatal("nothing comes to give up")
	}
	out := &kgo.Record{Topic: c.dead(), Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
	out.Headers = append(out.Headers, []kgo.RecordHeader{
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.springframework.kafka.listener.ListenerExecutionFailedException")},
		{Key: "kafka_dlt-exception-cause-fqcn", Value: []byte(f.Exception)},
		{Key: "kafka_dlt-exception-message", Value: []byte(f.Message)},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte(f.Trace)},
		{Key: "kafka_dlt-original-topic", Value: []byte(r.Topic)},
		{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(r.Partition))},
		{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(r.Offset))},
		{Key: "kafka_dlt-original-timestamp", Value: binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp.UnixMilli()))},
		{Key: "kafka_dlt-original-timestamp-type", Value: []byte("CreateTime")},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte(c.ladder.Group)},
	}...)
	c.produce(out)
}

func (c *climber) harness(t testing.TB) bridgetest.Harness {
	c.own, c.other = c.pile(c.topic, c.retry()), c.pile(c.topic)
	receive := func(p *pile) func(testing.TB) (settle.Record, bool) {
		return func(testing.TB) (settle.Record, bool) {
			r, is := p.next(time.Second)
			if !is {
				return settle.Record{}, false
			}
			found := settle.Record{Raw: r.Value, Key: string(r.Key), Headers: map[string]string{}}
			for _, h := range r.Headers {
				found.Headers[h.Key] = string(h.Value)
			}
			return found, true
		}
	}
	return bridgetest.Harness{
		Broker: c.connection(t), Again: func(t testing.TB) bridge.Broker { return c.connection(t) }, Ladder: c.ladder, Patience: patience,
		Publish: func(t testing.TB, key string, value []byte, headers map[string]string) {
			r := &kgo.Record{Topic: c.topic, Key: []byte(key), Value: value}
			for k, v := range headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
			}
			c.produce(r)
		},
		GiveUp:  func(_ testing.TB, f bridgetest.Failure) { c.giveUp(f) },
		Receive: receive(c.own), ReceiveOther: receive(c.other),
		Missing: bridge.Group{Name: c.ladder.Group, Dead: []string{"nowhere-" + c.topic}},
		Without: []string{bridgetest.AbilityAttempts},
	}
}

func (c *climber) connection(t testing.TB) *kafka.Broker {
	return c.open(t, kafka.Config{SessionTimeout: 6 * time.Second})
}

func TestDeadLettersOfKafkaKeepTheContract(t *testing.T) {
	at := serverForTest(t)
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness {
		t.(*testing.T).Parallel() // they wait most of the time
		return newClimber(t, at).harness(t)
	})
}

func TestDeadLettersOfAFakeOfKafkaKeepTheContract(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: the server's own are in the plain run")
	}
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness { return newClimber(t, newFake(t).url()).harness(t) })
}
