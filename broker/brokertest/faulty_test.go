package brokertest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
)

// faulty is a broker with some of its behaviour replaced.
type faulty struct {
	settle.Broker
	publish   func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt
	subscribe func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error
}

func (f faulty) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	if f.publish == nil {
		return f.Broker.Publish(ctx, batch)
	}
	return f.publish(f.Broker, ctx, batch)
}

func (f faulty) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	if f.subscribe == nil {
		return f.Broker.Subscribe(ctx, s, sink)
	}
	return f.subscribe(f.Broker, ctx, s, sink)
}

type deliver func(ctx context.Context, p settle.Partition, records []settle.Record) error

func (d deliver) Deliver(ctx context.Context, p settle.Partition, records []settle.Record) error {
	return d(ctx, p, records)
}

// claiming is an Ownership with some of its behaviour replaced.
type claiming struct {
	settle.Ownership
	change func(claims []settle.Claim, err error) ([]settle.Claim, error)
	raise  func() error
}

func (c claiming) Claim(ctx context.Context, topic string, n int) ([]settle.Claim, error) {
	claims, err := c.Ownership.Claim(ctx, topic, n)
	if c.change == nil {
		return claims, err
	}
	return c.change(claims, err)
}

func (c claiming) RaiseFloor(ctx context.Context, p settle.Partition, to settle.Floor) error {
	if c.raise == nil {
		return c.Ownership.RaiseFloor(ctx, p, to)
	}
	return c.raise()
}

// floors changes every floor that is claimed.
func floors(change func(*settle.Claim)) func(settle.Broker) settle.Broker {
	return func(b settle.Broker) settle.Broker {
		return faulty{Broker: b, subscribe: func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
			s.Ownership = claiming{Ownership: s.Ownership, change: func(claims []settle.Claim, err error) ([]settle.Claim, error) {
				for i := range claims {
					change(&claims[i])
				}
				return claims, err
			}}
			return inner.Subscribe(ctx, s, sink)
		}}
	}
}

// delivering changes what reaches the sink.
func delivering(change func(sink settle.Sink) deliver) func(settle.Broker) settle.Broker {
	return func(b settle.Broker) settle.Broker {
		return faulty{Broker: b, subscribe: func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
			return inner.Subscribe(ctx, s, change(sink))
		}}
	}
}

// subscribing replaces Subscribe.
func subscribing(subscribe func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error) func(settle.Broker) settle.Broker {
	return func(b settle.Broker) settle.Broker { return faulty{Broker: b, subscribe: subscribe} }
}

// publishing replaces Publish.
func publishing(publish func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt) func(settle.Broker) settle.Broker {
	return func(b settle.Broker) settle.Broker { return faulty{Broker: b, publish: publish} }
}

// editing changes receipts.
func editing(change func(r *settle.Receipt)) func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		receipts := inner.Publish(ctx, batch)
		for i := range receipts {
			change(&receipts[i])
		}
		return receipts
	})
}

// full is a memory broker that pretends to have every ability: its restart
// loses nothing, its lost answers are reported as unknown.
func full(cfg memory.Config, plant func(settle.Broker) settle.Broker) func(t testing.TB) Harness {
	return func(t testing.TB) Harness {
		const topic = "suite"
		cfg := cfg
		cfg.Topics = []string{topic}
		b := memory.New(cfg)
		if plant == nil {
			plant = func(b settle.Broker) settle.Broker { return b }
		}
		return Harness{
			Broker: plant(b), Topic: topic, MissingTopic: "missing",
			Again: func(testing.TB) settle.Broker { return plant(b.Connect()) },
			Log:   func(testing.TB) []settle.Record { return b.Log(topic) },
			Foreign: func(t testing.TB, key string, value []byte, headers map[string]string) {
				if err := b.PublishRaw(topic, key, value, headers); err != nil {
					t.Fatal(err)
				}
			},
			Restart:  func(testing.TB) {},
			Recreate: func(testing.TB) { b.Recreate(topic) },
			Lossy:    func(testing.TB) (settle.Broker, func() int) { return lossy(b.Connect()) },
		}
	}
}

// lossy reports one batch as unknown although it is stored.
func lossy(b settle.Broker) (settle.Broker, func() int) {
	var losing atomic.Bool
	lost := make(chan int, 1)
	return faulty{Broker: b, publish: func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
			receipts := inner.Publish(ctx, batch)
			if losing.CompareAndSwap(true, false) {
				for i := range receipts {
					receipts[i] = settle.Receipt{Err: &settle.PublishError{Scope: settle.ScopeBroker, Err: context.DeadlineExceeded}}
				}
				lost <- len(receipts)
			}
			return receipts
		}}, func() int {
			losing.Store(true)
			return <-lost
		}
}

// once lets one subscriber through for each name and keeps the others waiting.
type once struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (o *once) first(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	if o.seen[name] {
		return false
	}
	o.seen[name] = true
	return true
}

// later is a lease far longer than any case.
func later() time.Time { return time.Now().Add(time.Hour) }
