package rocketmq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/internal/services"
)

// patience is what a busy machine needs to make topics and move them.
const patience = time.Minute

func TestRocketMQKeepsTheContract(t *testing.T) {
	at := serverForTest(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		h := newRig(t, at).harness(t)
		h.Without = []string{brokertest.AbilityRestart}
		return h
	})
}

func serverForTest(t testing.TB) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
}

// rig is a topic of the test's own, and another client to look at it.
type rig struct {
	at, topic string
	names     []string
	wire      *remoting.Client
}

const queues = 4

func newRig(t testing.TB, at string) *rig {
	t.Helper()
	r := &rig{at: at, topic: "suite-" + settle.NewID(), wire: remoting.New(remoting.Config{})}
	t.Cleanup(r.wire.Close)
	hosts, _, _ := strings.Cut(strings.TrimPrefix(at, "rocketmq://"), "?")
	if _, behind, is := strings.Cut(hosts, "@"); is {
		hosts = behind
	}
	r.names = strings.Split(hosts, ",")
	t.Cleanup(func() { r.remove(context.WithoutCancel(t.Context())) })
	return r
}

// remove deletes the topic. What is away keeps it.
func (r *rig) remove(ctx context.Context) {
	nodes, _ := r.wire.Cluster(ctx, r.names[0])
	for _, n := range nodes {
		if n.Master() {
			_ = r.wire.DeleteTopic(ctx, n.Addr, r.topic)
		}
	}
	for _, server := range r.names {
		_ = r.wire.ForgetTopic(ctx, server, r.topic)
		_ = r.wire.DeleteOrder(ctx, server, r.topic)
	}
}

func (r *rig) config() rocketmq.Config {
	return rocketmq.Config{Topics: []string{r.topic}, Queues: queues, RouteEvery: time.Second}
}

func (r *rig) open(t testing.TB, cfg rocketmq.Config) *rocketmq.Broker {
	t.Helper()
	b, err := rocketmq.Open(context.WithoutCancel(t.Context()), r.at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rig) harness(t testing.TB) brokertest.Harness {
	return brokertest.Harness{
		Broker: r.open(t, r.config()), Topic: r.topic, MissingTopic: "missing-" + settle.NewID(), CountsPartitions: true, Forgets: true, Patience: patience,
		Again:   func(t testing.TB) settle.Broker { return r.open(t, r.config()) },
		Log:     r.log,
		Foreign: r.foreign,
		Lossy: func(t testing.TB) (settle.Broker, func() int) {
			d, cfg := newLossyDial(), r.config()
			cfg.Dial = d.dial
			return r.open(t, cfg), d.lose
		},
		Recreate: func(t testing.TB) {
			r.remove(t.Context())
			if err := r.open(t, r.config()).Close(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// queues lists those of the topic: the broker's master and the queue's number there.
func (r *rig) queues(t testing.TB) (masters []string, numbers []int) {
	t.Helper()
	route, err := r.wire.Route(t.Context(), r.names[0], r.topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range route.Nodes { // masters by name, as the list of queues has them
		if !n.Master() {
			continue
		}
		for id := range queues {
			masters, numbers = append(masters, n.Addr), append(numbers, id)
		}
	}
	return masters, numbers
}

// foreign sends as producers in other languages do.
func (r *rig) foreign(t testing.TB, key string, value []byte, headers map[string]string) {
	t.Helper()
	masters, numbers := r.queues(t)
	n := settle.PartitionOf(key, len(masters))
	properties := ""
	for k, v := range headers {
		properties += k + "\x01" + v + "\x02"
	}
	_, err := r.wire.Send(t.Context(), masters[n], remoting.Sending{Group: "other", Topic: r.topic, Queue: numbers[n], Messages: []remoting.Outgoing{{Properties: properties, Body: value}}})
	if err != nil {
		t.Fatal(err)
	}
}

// log reads all queues.
func (r *rig) log(t testing.TB) (all []settle.Record) {
	t.Helper()
	masters, numbers := r.queues(t)
	for n := range masters {
		r.readable(t, masters[n])
		for from, end := int64(0), int64(1); from < end; {
			found, err := r.wire.Pull(t.Context(), masters[n], remoting.Pulling{Group: "log", Topic: r.topic, Queue: numbers[n], Offset: from, MaxMessages: 32, MaxBytes: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			end = found.End
			for _, m := range found.Messages {
				rec := settle.Record{Position: m.Offset + 1, Raw: m.Body, At: settle.Coordinates{Topic: r.topic, Partition: n, Offset: m.Offset}}
				rec.Event, rec.DecodeErr = settle.DecodeEnvelope(m.Body, nil)
				all, from = append(all, rec), m.Offset+1
			}
		}
	}
	return all
}

// readable waits until all that is stored can be read, which it can be a moment after
// it is acknowledged.
func (r *rig) readable(t testing.TB, master string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		state, err := r.wire.State(t.Context(), master)
		if err != nil {
			t.Fatal(err)
		}
		if state["dispatchBehindBytes"] == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s bytes of %s can't be read yet", state["dispatchBehindBytes"], master)
		}
	}
}
