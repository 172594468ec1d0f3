package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var publishCases = []testCase{
	{name: "an acknowledged message is in the log once, where its receipt says", test: acknowledgedIsLogged},
	{name: "what was acknowledged survives a kill of the broker", needs: AbilityRestart, test: acknowledgedSurvives},
	{name: "events of a key keep their order, with many keys and publishers", groups: []string{"order"}, test: orderPerKey},
	{name: "the largest event arrives, and one byte over the broker's limit is refused for good", groups: []string{"large"}, test: sizeLimit},
	{name: "payloads, headers and fields arrive exactly", groups: []string{"exact"}, test: exactContent},
	{name: "a topic that does not exist is a topic error", needs: AbilityMissingTopic, test: missingTopic},
	{name: "behind a refused message its key waits and its neighbours do not", test: refusedMessage},
	{name: "publishing and subscribing after Close say ErrClosed", test: afterClose},
	{name: "a cancelled Publish acknowledges only what the broker holds", test: cancelledPublish},
	{name: "after a lost acknowledgement, publishing again makes no second copy", needs: AbilityLossy, test: lostAcknowledgement},
}

func acknowledgedIsLogged(t testing.TB, h Harness) {
	batch := messages(h, "k", 60, 12)
	receipts := publish(t, h, h.Broker, batch[:50]) // many at once
	receipts = append(receipts, publish(t, h, h.Broker, batch[50:])...)
	checkLogged(t, h, batch, receipts)
	checkOrder(t, "the log", events(h.Log(t)))
}

func checkLogged(t testing.TB, h Harness, batch []settle.Message, receipts []settle.Receipt) {
	t.Helper()
	log := logged(h.Log(t))
	for i, m := range batch {
		switch found := log[m.Event.ID]; {
		case len(found) != 1:
			t.Errorf("event %s is in the log %d times", m.Event.ID, len(found))
		case found[0].At != receipts[i].At:
			t.Errorf("event %s is at %v, its receipt says %v", m.Event.ID, found[0].At, receipts[i].At)
		}
	}
}

func acknowledgedSurvives(t testing.TB, h Harness) {
	batch := messages(h, "k", 60, 12)
	receipts := publish(t, h, h.Broker, batch[:50])
	receipts = append(receipts, publish(t, h, h.Broker, batch[50:])...)
	h.Restart(t)
	checkLogged(t, h, batch, receipts)
}

func orderPerKey(t testing.TB, h Harness) {
	g := newGroup(t, h, "order")
	var publishers sync.WaitGroup
	var all []settle.Message
	for p := range 4 {
		keys, at := 20, 50 // many at once
		if p%2 == 1 {
			keys, at = 3, 12 // a few at once, and keys that repeat among them
		}
		batch := messages(h, string(rune('a'+p)), 200, keys)
		all = append(all, batch...)
		publishers.Go(func() {
			for part := range slices.Chunk(batch, at) {
				ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
				if _, err := publishUntilHeld(ctx, h.Broker, part); err != nil {
					t.Errorf("publish: %v", err)
				}
				cancel()
			}
		})
	}
	g.join(joining{name: "first"})
	g.join(joining{name: "second"})
	publishers.Wait()
	g.awaitAll(all)
	checkOrder(t, "the log", events(h.Log(t)))
}

func sizeLimit(t testing.TB, h Harness) {
	sized := func(key string, n, size int) settle.Message {
		m := message(h, key, n)
		at := m.Event.AppendedAt.Truncate(time.Second) // fractions vary in length
		m.Event.OccurredAt, m.Event.AppendedAt = at, at
		m.Event.Payload = append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')
		return m
	}
	largest := sized("largest", 1, settle.MaxPayload)
	publish(t, h, h.Broker, []settle.Message{largest})
	tries := 0
	fits := func(size int) bool {
		tries++
		key := "try" + string(rune('A'+tries%26)) + string(rune('A'+tries/26))
		m, neighbour := sized(key, 1, size), message(h, key+"-neighbour", 1)
		receipts := h.Broker.Publish(context.Background(), []settle.Message{m, neighbour})
		if receipts[1].Err != nil {
			t.Fatalf("a message of %d bytes fails its neighbour: %v", size, receipts[1].Err)
		}
		err := receipts[0].Err
		if err != nil && (settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err)) {
			t.Fatalf("a message of %d bytes is refused with %v, not as a record error for good", size, err)
		}
		return err == nil
	}
	low, high := settle.MaxPayload, 2*settle.MaxPayload
	for ; fits(high); high *= 2 {
		if low = high; high > 64<<20 {
			t.Fatalf("the broker takes a message of %d bytes; a limit is needed", high)
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	last := sized("last", 1, low)
	publish(t, h, h.Broker, []settle.Message{last})
	if fits(low + 1) {
		t.Errorf("%d bytes are refused once and taken once", low+1)
	}
	g := newGroup(t, h, "large")
	g.join(joining{})
	g.awaitAll([]settle.Message{largest, last})
	for _, e := range g.order() {
		for _, sent := range []settle.Message{largest, last} {
			if e.ID == sent.Event.ID && !bytes.Equal(e.Payload, sent.Event.Payload) {
				t.Errorf("event %s has arrived with another payload: %d bytes of %d", e.ID, len(e.Payload), len(sent.Event.Payload))
			}
		}
	}
}

func exactContent(t testing.TB, h Harness) {
	raw := make([]byte, 256)
	for i := range raw {
		raw[i] = byte(i)
	}
	binary := message(h, "binary €uro 😀 %41", 1)
	binary.Event.ContentType, binary.Event.Payload = "application/octet-stream", raw
	exact := message(h, "exact", 1)
	exact.Event.Payload = []byte(`{"z":12345678901234567890, "a":1.10,"ü":"\u20ac €","a":null}`)
	for _, e := range []*settle.Event{binary.Event, exact.Event} {
		e.BizKey, e.TraceID, e.CausationID, e.Version = "biz \"key\"", "trace/1", "cause-1", 7
		e.Headers = map[string]string{
			"euro": "10 €", "emoji": "😀", "percent": "100%25 %", "space": "a b  c", "outer": "  around\\ ", "empty": "",
			"Case": "one", "case": "two", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"Nats-Msg-Id": "mine", "Nats-Rollup": "all", "Content-Type": "text/plain", "x-retry": "3", "quote": `"'<>&`,
		}
	}
	batch := []settle.Message{binary, exact}
	publish(t, h, h.Broker, batch)
	publish(t, h, h.Broker, messages(h, "filler", 40, 40)) // the same among many
	g := newGroup(t, h, "exact")
	g.join(joining{})
	g.awaitAll(batch)
	for _, got := range g.order() {
		for _, m := range batch {
			if got.ID == m.Event.ID {
				checkSame(t, got, m.Event)
			}
		}
	}
}

func checkSame(t testing.TB, got, sent *settle.Event) {
	t.Helper()
	if !bytes.Equal(got.Payload, sent.Payload) {
		t.Errorf("payload %q has arrived as %q", sent.Payload, got.Payload)
	}
	for k, v := range sent.Headers {
		if have, ok := got.Headers[k]; !ok || have != v {
			t.Errorf("header %s: %q has arrived as %q", k, v, have)
		}
	}
	for k := range got.Headers {
		if _, ok := sent.Headers[k]; !ok {
			t.Errorf("header %s: %q was not sent", k, got.Headers[k])
		}
	}
	if !got.OccurredAt.Equal(sent.OccurredAt) || !got.AppendedAt.Equal(sent.AppendedAt) {
		t.Errorf("times %v, %v have arrived as %v, %v", sent.OccurredAt, sent.AppendedAt, got.OccurredAt, got.AppendedAt)
	}
	a, b := plain(got), plain(sent)
	if !maps.Equal(a, b) {
		t.Errorf("fields %v have arrived as %v", b, a)
	}
}

func plain(e *settle.Event) map[string]any {
	return map[string]any{
		"id": e.ID, "type": e.Type, "aggregateType": e.AggregateType, "aggregateId": e.AggregateID, "seq": e.AggregateSeq, "biz": e.BizKey,
		"trace": e.TraceID, "cause": e.CausationID, "version": e.Version, "content": e.ContentType, "topic": e.Topic, "supersedes": e.Supersedes,
	}
}

func missingTopic(t testing.TB, h Harness) {
	for _, n := range []int{1, 30} {
		batch := messages(h, "k", n, n)
		for _, m := range batch {
			m.Event.Topic = h.MissingTopic
		}
		ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
		for i, r := range h.Broker.Publish(ctx, batch) {
			if settle.ScopeOf(r.Err) != settle.ScopeTopic {
				t.Fatalf("message %d of %d to a missing topic: got %v, want a topic error", i, n, r.Err)
			}
		}
		cancel()
	}
	publish(t, h, h.Broker, messages(h, "k", 3, 3)) // the other topic goes on
}

func refusedMessage(t testing.TB, h Harness) {
	for i, filler := range []int{0, 40} { // one by one, and many at once
		prefix := string(rune('p' + i))
		a, b, c := prefix+"a", prefix+"b", prefix+"c"
		bad := message(h, b, 1)
		bad.Event.Payload = []byte(`{"cut":`)
		after := message(h, b, 2)
		batch := []settle.Message{message(h, a, 1), bad, message(h, a, 2), after, message(h, c, 1)}
		batch = append(batch, messages(h, prefix+"filler", filler, max(filler, 1))...)
		ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
		receipts := h.Broker.Publish(ctx, batch)
		cancel()
		for j, r := range receipts {
			switch {
			case j == 1 && (settle.ScopeOf(r.Err) != settle.ScopeRecord || !settle.IsPermanent(r.Err)):
				t.Errorf("cut JSON: got %v, want a record error for good", r.Err)
			case j == 3 && (r.Err == nil || settle.IsPermanent(r.Err)):
				t.Errorf("the event behind a refused one: got %v, want an error that is not for good", r.Err)
			case j != 1 && j != 3 && r.Err != nil:
				t.Errorf("neighbour %s of a refused event: %v", batch[j].ID, r.Err)
			}
		}
		if n := len(logged(h.Log(t))[after.Event.ID]); n != 0 {
			t.Errorf("the event behind a refused one is in the log %d times", n)
		}
		publish(t, h, h.Broker, []settle.Message{after})
	}
	none := h.Broker.Publish(context.Background(), []settle.Message{{ID: "no-event"}})
	if settle.ScopeOf(none[0].Err) != settle.ScopeRecord {
		t.Errorf("a message without event: got %v, want a record error", none[0].Err)
	}
}

func afterClose(t testing.TB, h Harness) {
	b := h.Again(t)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for i, r := range b.Publish(context.Background(), messages(h, "k", 3, 3)) {
		if !errors.Is(r.Err, settle.ErrClosed) {
			t.Errorf("message %d: got %v, want ErrClosed", i, r.Err)
		}
	}
	g := newGroup(t, h, "closed")
	if err := g.join(joining{broker: b}).result(); !errors.Is(err, settle.ErrClosed) {
		t.Errorf("Subscribe: got %v, want ErrClosed", err)
	}
}

func cancelledPublish(t testing.TB, h Harness) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for i, r := range h.Broker.Publish(ctx, messages(h, "before", 30, 30)) {
		if r.Err == nil {
			t.Errorf("message %d was acknowledged although its context had ended", i)
		}
	}
	var held []settle.Message
	var receipts []settle.Receipt
	for round := range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(round)*300*time.Microsecond)
		batch := messages(h, "during"+string(rune('a'+round)), 30, 10)
		began := time.Now()
		for i, r := range h.Broker.Publish(ctx, batch) {
			if r.Err == nil {
				held, receipts = append(held, batch[i]), append(receipts, r)
			}
		}
		cancel()
		if took := time.Since(began); took > h.Patience/2 {
			t.Errorf("Publish took %v after its context had ended", took)
		}
	}
	checkLogged(t, h, held, receipts)
}

func lostAcknowledgement(t testing.TB, h Harness) {
	for i, n := range []int{40, 3} { // many at once, and one by one
		b, lose := h.Lossy(t)
		lost := make(chan int, 1)
		go func() { lost <- lose() }()
		var all []settle.Message
		ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
		swallowed, lossy := 0, true
		for round := 0; lossy; round++ { // a client may send again by itself
			select {
			case swallowed = <-lost:
				lossy = false
			default:
			}
			batch := messages(h, fmt.Sprintf("%d-%d-", i, round), n, 8)
			all = append(all, batch...)
			if _, err := publishUntilHeld(ctx, b, batch); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if swallowed == 0 {
			t.Fatal("no acknowledgement was lost")
		}
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		log := h.Log(t)
		found := logged(log)
		for _, m := range all {
			if copies := len(found[m.Event.ID]); copies == 0 || copies > 1 && !h.Forgets {
				t.Errorf("event %s is in the log %d times", m.Event.ID, copies)
			}
		}
		checkOrder(t, "the log", events(log))
	}
}
