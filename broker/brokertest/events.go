package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// message returns the n-th event of a key. Its sequence is how order is
// checked.
func message(h Harness, key string, n int) settle.Message {
	id := fmt.Sprintf("%s-%d", key, n)
	now := time.Now().UTC().Truncate(time.Microsecond)
	return settle.Message{ID: id, Epoch: 1, Source: "suite", Event: &settle.Event{
		ID: id, Type: "suite.happened", AggregateType: "suite", AggregateID: key, AggregateSeq: int64(n), BizKey: key,
		OccurredAt: now, AppendedAt: now, Version: 1, ContentType: settle.ContentTypeJSON, Topic: h.Topic,
		Payload: fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n),
	}}
}

// messages returns n events that go round the given number of keys.
func messages(h Harness, prefix string, n, keys int) []settle.Message {
	batch := make([]settle.Message, n)
	for i := range batch {
		batch[i] = message(h, fmt.Sprintf("%s%d", prefix, i%keys), i/keys+1)
	}
	return batch
}

// publish sends a batch that has to be acknowledged wholly.
func publish(t testing.TB, h Harness, b settle.Broker, batch []settle.Message) []settle.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
	defer cancel()
	receipts := b.Publish(ctx, batch)
	if len(receipts) != len(batch) {
		t.Fatalf("%d receipts for %d messages", len(receipts), len(batch))
	}
	for i, r := range receipts {
		if r.Err != nil {
			t.Fatalf("message %d (%s) was refused: %v", i, batch[i].ID, r.Err)
		}
	}
	return receipts
}

// publishUntilHeld does what a relay does: sends again, under the same ids,
// what was not acknowledged, until all is. It gives up with ctx.
func publishUntilHeld(ctx context.Context, b settle.Broker, batch []settle.Message) (again int, err error) {
	for {
		var rest []settle.Message
		for i, r := range b.Publish(ctx, batch) {
			if r.Err != nil {
				rest, err = append(rest, batch[i]), r.Err
			}
		}
		if len(rest) == 0 {
			return again, nil
		}
		again += len(rest)
		batch = rest
		select {
		case <-ctx.Done():
			return again, fmt.Errorf("%d messages are not acknowledged: %w", len(rest), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logged returns, by event id, where the topic's log holds it.
func logged(records []settle.Record) map[string][]settle.Record {
	at := map[string][]settle.Record{}
	for _, r := range records {
		if r.Event != nil {
			at[r.Event.ID] = append(at[r.Event.ID], r)
		}
	}
	return at
}

// events returns the events of records, without foreign ones.
func events(records []settle.Record) []*settle.Event {
	var all []*settle.Event
	for _, r := range records {
		if r.Event != nil {
			all = append(all, r.Event)
		}
	}
	return all
}

// checkOrder reports where first copies of a key are out of order.
func checkOrder(t testing.TB, where string, all []*settle.Event) {
	t.Helper()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, e := range all {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if e.AggregateSeq != last[e.AggregateID]+1 {
			t.Errorf("%s: event %d of key %s comes after %d", where, e.AggregateSeq, e.AggregateID, last[e.AggregateID])
		}
		last[e.AggregateID] = e.AggregateSeq
	}
}
