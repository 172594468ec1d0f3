package brokertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
)

// planted is a broken broker; it has to fail the case that it is listed for.
type planted struct {
	fails, bug string
	cfg        memory.Config
	plant      func() func(settle.Broker) settle.Broker
	change     func(h *Harness)
}

var plants = []planted{
	{fails: "an acknowledged message is in the log once", bug: "acknowledges what it has dropped", plant: dropsSome},
	{fails: "what was acknowledged survives a kill", bug: "a kill loses everything", change: losesAll},
	{fails: "events of a key keep their order", bug: "sends a batch backwards", plant: sendsBackwards},
	{fails: "the largest event arrives", bug: "calls a record that is too large trouble of the broker", plant: wrongScope(settle.ScopeRecord)},
	{fails: "the largest event arrives", bug: "cuts large payloads", plant: cutsPayloads},
	{fails: "payloads, headers and fields arrive exactly", bug: "trims header values", plant: trimsHeaders},
	{fails: "payloads, headers and fields arrive exactly", bug: "writes JSON anew", plant: rewritesJSON},
	{fails: "a topic that does not exist", bug: "calls a missing topic trouble of the broker", plant: wrongScope(settle.ScopeTopic)},
	{fails: "behind a refused message", bug: "sends what is behind a refused message", plant: sendsEachAlone},
	{fails: "behind a refused message", bug: "one refused message fails its batch", plant: failsTogether},
	{fails: "publishing and subscribing after Close", bug: "calls closed a broker that is away", plant: hidesClosed},
	{fails: "a cancelled Publish", bug: "pays no attention to the context", plant: ignoresContext},
	{fails: "after a lost acknowledgement", bug: "knows no message ids", cfg: memory.Config{DedupWindow: -1}},

	{fails: "each group receives every event", bug: "only the first group gets anything", plant: oneGroup},
	{fails: "the members of a group share", bug: "a second member gets nothing", plant: oneMember},
	{fails: "after an error the same records", bug: "goes on behind the record that failed", plant: skipsFailed},
	{fails: "a slow sink", bug: "delivers a second time while the first is busy", plant: deliversTwice},
	{fails: "one delivery keeps to", bug: "pays no attention to bounds", plant: unbounded},
	{fails: "a foreign record", bug: "drops what it does not understand", plant: dropsForeign},
	{fails: "Subscribe waits", bug: "returns at once", plant: returnsAtOnce},
	{fails: "a member that goes on", bug: "begins at the beginning", plant: noFloors},
	{fails: "an invalid subscription", bug: "waits for a group name to appear", plant: waitsWhenInvalid},

	{fails: "what a member had in hand", bug: "counts as done what was delivered", plant: doneWhenDelivered},
	{fails: "a member whose partition was taken", bug: "never lets go of a partition", plant: neverLetsGo},
	{fails: "a member that can't renew", bug: "goes on without a lease", plant: neverLetsGo},
	{fails: "a floor of another life", bug: "begins anew when the floor does not fit", plant: noFloors},
	{fails: "a topic that was made anew", bug: "begins anew when the floor does not fit", plant: noFloors},
	{fails: "the floor of an idle partition", bug: "never raises a floor", plant: neverRaises},

	{fails: "Close while busy", bug: "Subscribe goes on after Close", plant: outlivesClose},
	{fails: "kills of the broker under load", bug: "a kill loses everything", change: losesAll},
}

func TestEachCaseFailsABrokenBroker(t *testing.T) {
	for _, p := range plants {
		t.Run(p.fails+"/"+p.bug, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(cases, func(c testCase) bool { return strings.HasPrefix(c.name, p.fails) })
			if i < 0 {
				t.Fatalf("no case begins with %q", p.fails)
			}
			var plant func(settle.Broker) settle.Broker
			if p.plant != nil {
				plant = p.plant()
			}
			open := full(p.cfg, plant)
			r := record(t, func(t testing.TB) {
				cases[i].run(t, func(t testing.TB) Harness {
					h := open(t)
					h.Patience = 700 * time.Millisecond
					if p.change != nil {
						p.change(&h)
					}
					return h
				})
			})
			if len(r.failures) == 0 {
				t.Errorf("a broker that %s passes (skipped: %q)", p.bug, r.skipped)
			} else {
				t.Logf("found: %s", r.failures[0])
			}
		})
	}
}

func TestEachCaseHasABrokenBrokerThatFailsIt(t *testing.T) {
	for _, c := range cases {
		if !slices.ContainsFunc(plants, func(p planted) bool { return strings.HasPrefix(c.name, p.fails) }) {
			t.Errorf("nothing shows that %q can fail", c.name)
		}
	}
}

func TestAnHonestBrokerWithEveryAbilityPasses(t *testing.T) { Run(t, full(memory.Config{}, nil)) }

func TestAMissingAbilityIsSkippedOnlyWhenItIsNamed(t *testing.T) {
	c := testCase{name: "restart", needs: AbilityRestart, test: func(testing.TB, Harness) {}}
	for _, named := range []bool{true, false} {
		r := record(t, func(t testing.TB) {
			c.run(t, func(t testing.TB) Harness {
				h := full(memory.Config{}, nil)(t)
				h.Restart = nil
				if named {
					h.Without = []string{AbilityRestart}
				}
				return h
			})
		})
		if named != (r.skipped != "") || named != (len(r.failures) == 0) {
			t.Errorf("named %v: skipped %q, failures %v", named, r.skipped, r.failures)
		}
	}
}

func losesAll(h *Harness) {
	h.Restart = h.Recreate
}

func dropsSome() func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		var kept []settle.Message
		for i, m := range batch {
			if i%7 != 6 {
				kept = append(kept, m)
			}
		}
		receipts := inner.Publish(ctx, kept)
		for len(receipts) < len(batch) {
			receipts = append(receipts, settle.Receipt{At: receipts[0].At})
		}
		return receipts
	})
}

func sendsBackwards() func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		turned := slices.Clone(batch)
		slices.Reverse(turned)
		receipts := inner.Publish(ctx, turned)
		slices.Reverse(receipts)
		return receipts
	})
}

func wrongScope(of settle.Scope) func() func(settle.Broker) settle.Broker {
	return func() func(settle.Broker) settle.Broker {
		return editing(func(r *settle.Receipt) {
			if r.Err != nil && settle.ScopeOf(r.Err) == of {
				r.Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: r.Err}
			}
		})
	}
}

// rewriting publishes changed copies of events.
func rewriting(change func(e *settle.Event)) func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		changed := slices.Clone(batch)
		for i, m := range changed {
			if m.Event != nil {
				e := *m.Event
				change(&e)
				changed[i].Event = &e
			}
		}
		return inner.Publish(ctx, changed)
	})
}

func cutsPayloads() func(settle.Broker) settle.Broker {
	return rewriting(func(e *settle.Event) {
		if len(e.Payload) > 500_000 && len(e.Payload) < 2_000_000 {
			e.Payload = []byte(`"cut"`)
		}
	})
}

func trimsHeaders() func(settle.Broker) settle.Broker {
	return rewriting(func(e *settle.Event) {
		trimmed := map[string]string{}
		for k, v := range e.Headers {
			trimmed[k] = strings.TrimSpace(v)
		}
		e.Headers = trimmed
	})
}

func rewritesJSON() func(settle.Broker) settle.Broker {
	return rewriting(func(e *settle.Event) {
		var v any
		if json.Unmarshal(e.Payload, &v) == nil {
			e.Payload, _ = json.Marshal(v)
		}
	})
}

func sendsEachAlone() func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		var receipts []settle.Receipt
		for i := range batch {
			receipts = append(receipts, inner.Publish(ctx, batch[i:i+1])...)
		}
		return receipts
	})
}

func failsTogether() func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		receipts := inner.Publish(ctx, batch)
		if i := slices.IndexFunc(receipts, func(r settle.Receipt) bool { return r.Err != nil }); i >= 0 {
			for j := range receipts {
				receipts[j] = settle.Receipt{Err: receipts[i].Err}
			}
		}
		return receipts
	})
}

func hidesClosed() func(settle.Broker) settle.Broker {
	return editing(func(r *settle.Receipt) {
		if errors.Is(r.Err, settle.ErrClosed) {
			r.Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("no connection")}
		}
	})
}

func ignoresContext() func(settle.Broker) settle.Broker {
	return publishing(func(inner settle.Broker, ctx context.Context, batch []settle.Message) []settle.Receipt {
		return inner.Publish(context.WithoutCancel(ctx), batch)
	})
}

func oneGroup() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		if s.Group != "first" {
			<-ctx.Done()
			return nil
		}
		return inner.Subscribe(ctx, s, sink)
	})
}

func oneMember() func(settle.Broker) settle.Broker {
	var o once
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		if !o.first(s.Group) {
			<-ctx.Done()
			return nil
		}
		return inner.Subscribe(ctx, s, sink)
	})
}

func skipsFailed() func(settle.Broker) settle.Broker {
	return delivering(func(sink settle.Sink) deliver {
		failed := false
		var mu sync.Mutex
		return func(ctx context.Context, p settle.Partition, records []settle.Record) error {
			mu.Lock()
			defer mu.Unlock()
			if failed && len(records) > 1 {
				records = records[1:]
			}
			err := sink.Deliver(ctx, p, records)
			failed = err != nil
			return err
		}
	})
}

func deliversTwice() func(settle.Broker) settle.Broker {
	return delivering(func(sink settle.Sink) deliver {
		return func(ctx context.Context, p settle.Partition, records []settle.Record) error {
			var second sync.WaitGroup
			defer second.Wait()
			second.Go(func() { _ = sink.Deliver(ctx, p, records) })
			return sink.Deliver(ctx, p, records)
		}
	})
}

func unbounded() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		s.MaxRecords, s.MaxBytes = 0, 0
		return inner.Subscribe(ctx, s, sink)
	})
}

func dropsForeign() func(settle.Broker) settle.Broker {
	return delivering(func(sink settle.Sink) deliver {
		return func(ctx context.Context, p settle.Partition, records []settle.Record) error {
			known := slices.DeleteFunc(slices.Clone(records), func(r settle.Record) bool { return r.Event == nil })
			if len(known) == 0 {
				return nil
			}
			return sink.Deliver(ctx, p, known)
		}
	})
}

func returnsAtOnce() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		ended := make(chan error, 1)
		go func() { ended <- inner.Subscribe(ctx, s, sink) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	})
}

func noFloors() func(settle.Broker) settle.Broker {
	return floors(func(c *settle.Claim) { c.Floor = settle.Floor{} })
}

func waitsWhenInvalid() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		if s.Group == "" {
			<-ctx.Done()
			return ctx.Err()
		}
		return inner.Subscribe(ctx, s, sink)
	})
}

func doneWhenDelivered() func(settle.Broker) settle.Broker {
	var mu sync.Mutex
	last := map[int]settle.Floor{}
	delivered := delivering(func(sink settle.Sink) deliver {
		return func(ctx context.Context, p settle.Partition, records []settle.Record) error {
			mu.Lock()
			last[p.Number] = settle.Floor{Generation: p.Generation, Position: records[len(records)-1].Position}
			mu.Unlock()
			return sink.Deliver(ctx, p, records)
		}
	})
	claimed := floors(func(c *settle.Claim) {
		mu.Lock()
		defer mu.Unlock()
		if f, ok := last[c.Partition.Number]; ok {
			c.Floor = f
		}
	})
	return func(b settle.Broker) settle.Broker { return claimed(delivered(b)) }
}

func neverLetsGo() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		kept := map[int]settle.Claim{}
		s.Ownership = claiming{Ownership: s.Ownership, change: func(claims []settle.Claim, _ error) ([]settle.Claim, error) {
			for _, c := range claims {
				c.Expires = later()
				kept[c.Partition.Number] = c
			}
			var all []settle.Claim
			for _, c := range kept {
				all = append(all, c)
			}
			return all, nil
		}}
		return inner.Subscribe(ctx, s, sink)
	})
}

func neverRaises() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		s.Ownership = claiming{Ownership: s.Ownership, raise: func() error { return nil }}
		return inner.Subscribe(ctx, s, sink)
	})
}

func outlivesClose() func(settle.Broker) settle.Broker {
	return subscribing(func(inner settle.Broker, ctx context.Context, s settle.Subscription, sink settle.Sink) error {
		err := inner.Subscribe(ctx, s, sink)
		<-ctx.Done()
		return err
	})
}
