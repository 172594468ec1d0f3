package brokertest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var deliverCases = []testCase{
	{name: "each group receives every event", groups: []string{"first", "second"}, test: everyGroup},
	{name: "the members of a group share its events", groups: []string{"shared"}, test: membersShare},
	{name: "after an error the same records are delivered again, from the first", groups: []string{"failing"}, test: errorRedelivers},
	{name: "a slow sink holds up its own partition only, and is not called twice at once", groups: []string{"slow"}, test: slowSink},
	{name: "one delivery keeps to MaxRecords and MaxBytes", groups: []string{"bounded"}, test: bounds},
	{name: "a foreign record is delivered with its bytes and the reason", needs: AbilityForeign, groups: []string{"foreign"}, test: foreignRecord},
	{name: "Subscribe waits for the delivery in flight when its context ends", groups: []string{"waiting"}, test: waitsForDelivery},
	{name: "a member that goes on after another reads what is left, and nothing again", groups: []string{"going-on"}, test: goesOn},
	{name: "an invalid subscription is refused at once", test: invalidSubscription},
}

func everyGroup(t testing.TB, h Harness) {
	batch := messages(h, "k", 100, 32)
	publish(t, h, h.Broker, batch[:50])
	first, second := newGroup(t, h, "first"), newGroup(t, h, "second")
	first.join(joining{})
	second.join(joining{})
	publish(t, h, h.Broker, batch[50:])
	first.awaitAll(batch)
	second.awaitAll(batch)
	late := newGroup(t, h, "late") // starts at the earliest record, if it is kept
	if h.Introduce != nil {
		h.Introduce(t, "late")
		batch = messages(h, "later", 100, 32)
		publish(t, h, h.Broker, batch)
	}
	late.join(joining{})
	late.awaitAll(batch)
}

func membersShare(t testing.TB, h Harness) {
	g := newGroup(t, h, "shared")
	g.join(joining{name: "first"})
	g.join(joining{name: "second", broker: again(t, h)})
	var all []settle.Message
	both := func() bool {
		by := map[string]int{}
		for _, a := range g.all() {
			by[a.member]++
		}
		return by["first"] > 0 && by["second"] > 0
	}
	deadline := time.Now().Add(h.Patience)
	for round := 0; !both(); round++ { // members find each other within a lease
		if time.Now().After(deadline) {
			t.Fatal("one member of two gets everything")
		}
		batch := messages(h, "r"+string(rune('A'+round%26))+string(rune('A'+round/26%26))+"-", 64, 64)
		publish(t, h, h.Broker, batch)
		all = append(all, batch...)
		g.awaitAll(all)
	}
}

func again(t testing.TB, h Harness) settle.Broker {
	b := h.Again(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func errorRedelivers(t testing.TB, h Harness) {
	batch := messages(h, "one", 12, 1)
	publish(t, h, h.Broker, batch)
	var mu sync.Mutex
	var tries [][]string
	g := newGroup(t, h, "failing")
	g.join(joining{maxRecords: 4, hook: func(_ context.Context, _ settle.Partition, records []settle.Record) error {
		mu.Lock()
		defer mu.Unlock()
		var ids []string
		for _, r := range records {
			ids = append(ids, r.Event.ID)
		}
		tries = append(tries, ids)
		if len(tries)%2 == 1 {
			return errors.New("the handler is not ready")
		}
		return nil
	}})
	g.awaitAll(batch)
	mu.Lock()
	defer mu.Unlock()
	for i := 0; i+1 < len(tries); i += 2 {
		failed, next := tries[i], tries[i+1]
		for j := range min(len(failed), len(next)) {
			if failed[j] != next[j] {
				t.Errorf("delivery %v failed, the next was %v", failed, next)
				break
			}
		}
	}
}

func slowSink(t testing.TB, h Harness) {
	first := append(messages(h, "other", 50, 50), message(h, "slow", 1))
	publish(t, h, h.Broker, first)
	release := make(chan struct{})
	var once sync.Once
	open := func() { once.Do(func() { close(release) }) }
	t.Cleanup(open)
	g := newGroupWithLease(t, h, "slow", leaseTime/4)
	var slowAt atomic.Int64
	slowAt.Store(-1)
	g.join(joining{hook: func(ctx context.Context, p settle.Partition, _ []settle.Record) error {
		if int64(p.Number) != slowAt.Load() {
			return nil
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	g.awaitAll(first)
	at := map[string]int{} // where each key is
	for _, a := range g.all() {
		at[a.record.Key] = a.partition
	}
	slowAt.Store(int64(at["slow"]))
	slow, all := message(h, "slow", 2), messages(h, "other", 100, 50)[50:]
	var others []settle.Message
	for _, m := range all {
		if at[m.Event.Key()] != at["slow"] {
			others = append(others, m)
		}
	}
	publish(t, h, h.Broker, append([]settle.Message{slow}, all...))
	g.awaitAll(others)
	time.AfterFunc(leaseTime/2, open) // two leases are renewed while the sink is busy
	g.awaitAll(append(all, slow))
}

func bounds(t testing.TB, h Harness) {
	batch := messages(h, "k", 100, 2)
	large := message(h, "k0", 51)
	large.Event.Payload = append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 5000)...), '"')
	batch = append(batch, large)
	publish(t, h, h.Broker, batch)
	const maxRecords, maxBytes = 7, 2000
	g := newGroup(t, h, "bounded")
	g.join(joining{maxRecords: maxRecords, maxBytes: maxBytes, hook: func(_ context.Context, _ settle.Partition, records []settle.Record) error {
		size := 0
		for _, r := range records {
			size += len(r.Raw)
		}
		if len(records) > maxRecords || size > maxBytes && len(records) > 1 {
			t.Errorf("a delivery has %d records of %d bytes; the bounds are %d and %d", len(records), size, maxRecords, maxBytes)
		}
		return nil
	}})
	g.awaitAll(batch)
}

func foreignRecord(t testing.TB, h Harness) {
	good := messages(h, "k", 2, 1)
	publish(t, h, h.Broker, good[:1])
	foreign := map[string][]byte{
		"cut":    []byte(`{"eventId":"e-1","eventType":"order.cre`),
		"random": {0xff, 0xfe, 0x00, 0x0d, 0x0a, 0x80},
		"other":  []byte(`{"hello":"world"}`),
		"empty":  {},
	}
	headers := map[string]string{"x-from": "another world €"}
	for _, value := range foreign {
		h.Foreign(t, good[0].Event.Key(), value, headers)
	}
	publish(t, h, h.Broker, good[1:])
	g := newGroup(t, h, "foreign")
	g.join(joining{})
	g.await("all records", func() bool { return len(g.all()) >= len(foreign)+2 })
	left := maps.Clone(foreign)
	for _, a := range g.all() {
		r := a.record
		if r.Event != nil {
			continue
		}
		if r.DecodeErr == nil || r.RecordedAt.IsZero() && !h.AssignsPartitions {
			t.Errorf("a foreign record came with reason %v, recorded at %v", r.DecodeErr, r.RecordedAt)
		}
		if r.Headers["x-from"] != headers["x-from"] {
			t.Errorf("a foreign record came with headers %v", r.Headers)
		}
		maps.DeleteFunc(left, func(_ string, value []byte) bool { return bytes.Equal(value, r.Raw) })
	}
	for name := range left {
		t.Errorf("the foreign record %q did not come with its bytes", name)
	}
	checkOrder(t, "the group", g.order())
}

func waitsForDelivery(t testing.TB, h Harness) {
	publish(t, h, h.Broker, messages(h, "k", 1, 1))
	entered, release := make(chan struct{}, 64), make(chan struct{})
	var finished atomic.Bool
	g := newGroup(t, h, "waiting")
	m := g.join(joining{hook: func(context.Context, settle.Partition, []settle.Record) error {
		entered <- struct{}{}
		<-release
		finished.Store(true)
		return nil
	}})
	select {
	case <-entered:
	case <-time.After(h.Patience):
		close(release)
		t.Fatal("nothing is delivered")
	}
	m.cancel()
	select {
	case err := <-m.ended:
		m.ended <- err
		t.Error("Subscribe has returned while a delivery was in flight")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if err := m.result(); err != nil {
		t.Errorf("Subscribe: %v", err)
	}
	if !finished.Load() {
		t.Error("Subscribe has returned before the delivery")
	}
	if len(g.all()) != 1 {
		t.Errorf("%d records applied", len(g.all()))
	}
}

func goesOn(t testing.TB, h Harness) {
	batch := messages(h, "k", 120, 40)
	g := newGroup(t, h, "going-on")
	for from := 0; from < len(batch); from += 40 {
		m := g.join(joining{name: "same"})
		publish(t, h, h.Broker, batch[from:from+40])
		g.awaitAll(batch[:from+40])
		if err := m.stop(); err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	}
}

func invalidSubscription(t testing.TB, h Harness) {
	g := newGroup(t, h, "invalid")
	sink := &member{g: g, name: "invalid"}
	own := owner{l: g.ledger, name: "invalid"}
	for name, s := range map[string]settle.Subscription{
		"no group": {Topics: []string{h.Topic}, Ownership: own},
		"no topic": {Group: "invalid", Ownership: own},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
		if err := h.Broker.Subscribe(ctx, s, sink); err == nil || ctx.Err() != nil {
			t.Errorf("%s: Subscribe returned %v after %v", name, err, ctx.Err())
		}
		cancel()
	}
}
