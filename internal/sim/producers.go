package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

// transact is one business transaction: it takes the lock of its key, writes
// its events, stays open for a while, and commits or rolls back.
func (w *plain) transact() {
	key := "key-" + string(rune('a'+w.IntN(w.Keys)))
	w.outbox.lock(key).acquire(func() {
		pooled := w.chance(w.Pooled)
		if pooled && len(w.outbox.pool) == 0 {
			w.outbox.reserve(w.from(1, 4))
		}
		tx := w.outbox.begin(w.chance(w.Async))
		n := 1
		if w.chance(0.25) {
			n = w.from(2, 4)
		}
		if w.InnoDB && !pooled {
			p := &inserting{w: w, tx: tx, key: key, left: n, bulk: w.chance(w.Bulk)}
			if p.bulk {
				p.left = w.from(2, 12)
			}
			p.next()
			return
		}
		for range n {
			w.outbox.insert(tx, w.newEvent(tx, key), pooled)
		}
		hold, rollback := w.hold(), w.chance(w.Rollback)
		w.After(hold, func() {
			if rollback {
				w.outbox.rollback(tx)
			} else {
				w.outbox.commit(tx)
			}
			w.outbox.lock(key).release()
			w.ring(w.outbox)
		})
	})
}

// hold is how long a business transaction stays open behind its last statement.
func (w *plain) hold() time.Duration {
	if w.chance(w.LongHold) {
		return w.between(100*time.Millisecond, 3*time.Second)
	}
	return w.between(0, 20*time.Millisecond)
}

// ring is the doorbell of a relay in the producer's process.
func (w *World) ring(o *outboxModel) {
	if !w.Doorbell || !w.chance(0.7) {
		return
	}
	for _, r := range w.relays {
		if r.alive && r.outbox == o {
			r.later(0, r.wake)
		}
	}
}

func (w *plain) newEvent(tx *outboxTx, key string) *settle.Event {
	topic := topicName(int(key[len(key)-1]) % w.Topics)
	if w.KeyInTwoTopics && !w.Counted && w.chance(0.3) {
		topic = topicName(w.IntN(w.Topics))
	}
	e := &settle.Event{
		Type: typeOrdinary, AggregateType: "order", AggregateID: key, BizKey: fmt.Sprintf("biz-%d", w.IntN(60)),
		Topic: topic, Payload: payloads[w.IntN(len(payloads))],
	}
	if w.chance(0.15) {
		e.Type = typeSometime
	}
	if w.Counted {
		e.AggregateSeq = w.outbox.counted(tx, key) + 1
	}
	if w.chance(w.Delayed) {
		e.NotBefore = w.dbNow().Add(w.between(10*time.Millisecond, 1500*time.Millisecond))
	}
	w.stamp(e, w.outbox)
	return e
}

// stamp gives an event its id, its times and its fate.
func (w *World) stamp(e *settle.Event, from *outboxModel) {
	e.ID = fmt.Sprintf("e%03d", len(w.eventIDs)+1)
	e.Version, e.AppendedAt, e.OccurredAt = 1, w.dbNow(), w.dbNow()
	w.eventIDs = append(w.eventIDs, e.ID)
	w.fates[e.ID] = w.newFate(from)
}

var payloads = [][]byte{[]byte(`{}`), []byte(`{"n":1}`), padded(40), padded(200), padded(900)}

// padded is a JSON document of n bytes.
func padded(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }

// counted is how many events of key were committed, or are in tx.
func (t *outboxTable) counted(tx *outboxTx, key string) int64 {
	n := int64(0)
	for _, r := range t.rows {
		if r != nil && r.event != nil && r.event.AggregateID == key && (r.state == rowVisible || r.state == rowDeleted || r.tx == tx) {
			n++
		}
	}
	return n
}

func (w *World) newFate(from *outboxModel) *fate {
	f := &fate{from: from, byGroup: map[string]*handling{}}
	switch {
	case w.chance(w.Refused):
		f.refused = w.pickLeft()
	case w.chance(w.Defective):
		f.defective = true
	case w.chance(w.Killer):
		f.kills = true
	}
	for i := range w.Groups {
		if h := w.newHandling(); h != nil {
			f.byGroup[w.Groups[i].Name] = h
		}
	}
	return f
}

// pickLeft is how often something goes wrong before it goes well: a few times,
// or until a person has cured it.
func (w *World) pickLeft() int {
	if w.chance(0.4) {
		return -1
	}
	return w.from(1, 3)
}

func (w *World) newHandling() *handling {
	switch {
	case w.chance(w.Flaky):
		return &handling{kind: fails, left: w.from(1, 2)}
	case w.chance(w.Poison):
		return &handling{kind: fails, left: -1}
	case w.chance(w.Rejected):
		return &handling{kind: rejects, left: -1}
	case w.chance(w.Permanent):
		return &handling{kind: failsForGood, left: -1}
	case w.chance(w.Panics):
		return &handling{kind: panics, left: w.pickLeft()}
	case w.chance(w.Killer):
		return &handling{kind: kills, left: w.pickLeft()}
	}
	return nil
}
