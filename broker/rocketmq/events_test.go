package rocketmq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// event returns the n-th of a key, from 1.
func event(topic, key string, n int) settle.Message {
	id := fmt.Sprintf("%s-%d", key, n)
	now := time.Now().UTC()
	return settle.Message{ID: id, Source: "tests", Event: &settle.Event{
		ID: id, Type: "thing.happened", AggregateID: key, AggregateSeq: int64(n), BizKey: key, OccurredAt: now, AppendedAt: now,
		Version: 1, ContentType: settle.ContentTypeJSON, Topic: topic, Payload: fmt.Appendf(nil, `{"n":%d}`, n),
	}}
}

// events returns the n-th event of each of some keys.
func events(topic, prefix string, keys, n int) []settle.Message {
	batch := make([]settle.Message, keys)
	for i := range batch {
		batch[i] = event(topic, fmt.Sprintf("%s%d", prefix, i), n)
	}
	return batch
}

// published sends a batch that has to be acknowledged wholly.
func published(t testing.TB, b settle.Publisher, batch []settle.Message) []settle.Receipt {
	t.Helper()
	receipts := b.Publish(t.Context(), batch)
	for i, r := range receipts {
		if r.Err != nil {
			t.Fatalf("event %s: %v", batch[i].ID, r.Err)
		}
	}
	return receipts
}

// publishedInTime does what a relay does: it sends again what was not acknowledged.
func publishedInTime(t testing.TB, b settle.Publisher, batch []settle.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var rest []settle.Message
		var err error
		for i, r := range b.Publish(ctx, batch) {
			if r.Err != nil {
				rest, err = append(rest, batch[i]), r.Err
			}
		}
		if batch = rest; len(batch) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d events are not acknowledged: %v", len(batch), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inOrder checks that first copies of each key are in order, and returns how often
// each event is there.
func inOrder(t testing.TB, log []settle.Record) map[string]int {
	t.Helper()
	times, last := map[string]int{}, map[string]int64{}
	for _, r := range log {
		if r.Event == nil {
			continue
		}
		e := r.Event
		if times[e.ID]++; times[e.ID] > 1 {
			continue
		}
		if e.AggregateSeq != last[e.AggregateID]+1 {
			t.Errorf("event %d of key %s comes after %d", e.AggregateSeq, e.AggregateID, last[e.AggregateID])
		}
		last[e.AggregateID] = e.AggregateSeq
	}
	return times
}

func closing[B interface{ Close() error }](t testing.TB, b B) B {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}
