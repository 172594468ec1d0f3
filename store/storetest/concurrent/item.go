package concurrent

import (
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// Item makes an item of the n-th event of a key.
func Item(key string, n int) settle.Item {
	now := time.Now()
	e := &settle.Event{ID: fmt.Sprintf("%s-%03d", key, n), Type: "x", AggregateType: "o", AggregateID: key, AggregateSeq: int64(n), AppendedAt: now, OccurredAt: now, Payload: []byte("{}")}
	return settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: settle.AppendEnvelope(nil, e), Key: key, Position: int64(n)}}
}

// parked is an item that is to wait, due at once.
func parked(it settle.Item) settle.Item {
	it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
	return it
}

// insteadOf makes an item of an event that was edited from another of its key.
func insteadOf(it settle.Item, id string) settle.Item {
	e := *it.Record.Event
	e.ID, e.Supersedes = id, it.Record.Event.ID
	it.Record.Event, it.Record.Raw = &e, settle.AppendEnvelope(nil, &e)
	return it
}

var errUnlucky = errors.New("unlucky")
