package consumelog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// Item is a settle.Item with what Apply needs to know of it, worked out once.
type Item struct {
	*settle.Item
	// No orders the item among all that the group has recorded.
	No        int64
	EventID   string
	EventType string
	Key       string
	Seq       int64
	// Appended is zero where neither producer nor broker has told.
	Appended time.Time
	// Supersedes is the event this one was edited from, Root the first of them.
	Supersedes, Root string
}

// NewItem never fails: a record that could not be understood gets an id made
// of its place and its bytes, the same at each delivery, and can only die. Times
// that can't be kept count as not told.
func NewItem(it *settle.Item, no int64) Item {
	if at := it.Record.RecordedAt; !at.Equal(Date(at)) {
		untimed := *it
		untimed.Record.RecordedAt = time.Time{}
		it = &untimed
	}
	r := &it.Record
	if r.Event == nil {
		if it.Intent != settle.IntentDie {
			dead := *it
			dead.Intent, dead.Class = settle.IntentDie, settle.ClassDecode
			if r.DecodeErr != nil {
				dead.Cause = r.DecodeErr.Error()
			}
			it = &dead
		}
		return Item{Item: it, No: no, EventID: placeID(r), Key: r.Key, Appended: r.RecordedAt}
	}
	e := r.Event
	n := Item{
		Item: it, No: no, EventID: e.ID, EventType: e.Type, Key: e.Key(), Seq: e.AggregateSeq,
		Appended: Date(e.AppendedAt), Supersedes: e.Supersedes,
	}
	if n.Appended.IsZero() {
		n.Appended = r.RecordedAt
	}
	return n
}

// Fit returns the item with what fit makes of its ids and keys, for a database
// that does not hold any text. fit must keep different ones different.
func (it Item) Fit(fit func(string) string) Item {
	it.EventID, it.Key, it.Supersedes = fit(it.EventID), fit(it.Key), fit(it.Supersedes)
	if key := fit(it.EffectKey); key != it.EffectKey {
		changed := *it.Item
		changed.EffectKey = key
		it.Item = &changed
	}
	return it
}

func placeID(r *settle.Record) string {
	sum := sha256.Sum256(r.Raw)
	return fmt.Sprintf("record:%s/%d/%d:%s", r.At.Topic, r.At.Partition, r.Position, hex.EncodeToString(sum[:4]))
}

// PayloadHash is what t_message_consume_log keeps of a payload.
func PayloadHash(payload []byte) int64 {
	sum := sha256.Sum256(payload)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
