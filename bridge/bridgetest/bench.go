package bridgetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// bench is a case at work.
type bench struct {
	testing.TB
	Harness
	ctx    context.Context
	group  bridge.Group
	source bridge.Source
}

func newBench(t testing.TB, h Harness) *bench {
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*h.Patience)
	t.Cleanup(func() {
		cancel()
		if err := h.Broker.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	b := &bench{TB: t, Harness: h, ctx: ctx}
	var err error
	if b.group, err = h.Broker.Declare(ctx, h.Ladder); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	b.source = b.sourceOf(h.Broker)
	return b
}

func (b *bench) needs(ability string) {
	b.Helper()
	if slices.Contains(b.Without, ability) {
		b.Skipf("SKIPPED: this broker is said to be without %s", ability)
	}
}

func (b *bench) sourceOf(of bridge.Broker) bridge.Source {
	b.Helper()
	s, err := of.Source(b.group)
	if err != nil {
		b.Fatalf("Source(%+v): %v", b.group, err)
	}
	return s
}

// event publishes one and returns its envelope.
func (b *bench) event(id string) []byte {
	b.Helper()
	e := &settle.Event{ID: id, Type: "order.created", AggregateType: "order", AggregateID: "o-" + id, BizKey: "B-" + id, TraceID: "t-" + id, Payload: []byte(`{"total":1.10}`)}
	raw := settle.AppendEnvelope(nil, e)
	headers := map[string]string{"x-team": "stock"}
	for _, p := range settle.WireHeaders(settle.Message{ID: id, Event: e}) {
		headers[p[0]] = p[1]
	}
	b.Publish(b, e.AggregateID, raw, headers)
	return raw
}

var errRefused = errors.New("the store is away")

// read runs Letters on a source until sink says that it has enough, and returns
// what Letters returned. It fails the case when that does not come about.
func (b *bench) read(from bridge.Source, sink func(letters []bridge.Letter) (enough bool, err error)) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, b.Patience)
	defer stop()
	enough := false
	err := from.Letters(ctx, func(_ context.Context, letters []bridge.Letter) error {
		if enough {
			return errRefused
		}
		var err error
		enough, err = sink(letters)
		if enough {
			stop()
		}
		return err
	})
	if err != nil {
		b.Fatalf("Letters: %v", err)
	}
	if !enough {
		b.Fatal("the letters that were awaited did not come in time")
	}
}

// take takes n letters, in order, and acknowledges them.
func (b *bench) take(from bridge.Source, n int) []bridge.Letter {
	b.Helper()
	var all []bridge.Letter
	b.read(from, func(letters []bridge.Letter) (bool, error) {
		all = append(all, letters...)
		return len(all) >= n, nil
	})
	if len(all) != n {
		b.Fatalf("there came %d letters, want %d: %v", len(all), n, identities(all))
	}
	return all
}

// die makes a letter of a new event and takes it.
func (b *bench) die(id string) bridge.Letter {
	b.Helper()
	b.event(id)
	b.GiveUp(b, Failure{Exception: "java.lang.IllegalStateException", Message: "no stock"})
	return b.take(b.source, 1)[0]
}

// stored is the letter as it comes back from a store.
func stored(l bridge.Letter) bridge.Letter {
	l.Record.Event, l.Record.DecodeErr = nil, nil
	l.Trace, l.History = "", nil
	return l
}

func (b *bench) sendBack(l bridge.Letter, id string, to bridge.Target) {
	b.Helper()
	if !slices.Contains(l.To, to) {
		b.Fatalf("the letter can go to %q, want %q among it", l.To, to)
	}
	if err := b.source.Return(b.ctx, bridge.Return{ID: id, To: to, Letter: stored(l)}); err != nil {
		b.Fatalf("Return to %s: %v", to, err)
	}
}

// received wants the group (or another) to receive these bytes.
func (b *bench) received(by func(testing.TB) (settle.Record, bool), raw []byte) settle.Record {
	b.Helper()
	for until := time.Now().Add(b.Patience); time.Now().Before(until); {
		if r, ok := by(b); ok {
			if string(r.Raw) != string(raw) {
				b.Fatalf("received is %q, want %q", r.Raw, raw)
			}
			return r
		}
	}
	b.Fatal("nothing was received")
	return settle.Record{}
}

func identities(letters []bridge.Letter) []string {
	ids := []string{}
	for _, l := range letters {
		ids = append(ids, l.Identity)
	}
	return ids
}
