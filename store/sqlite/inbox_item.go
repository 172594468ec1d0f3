package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// Statuses of t_message_consume_log that we write. A foreign consumer may also
// have left PROCESSING, SUCCESS and FAILED.
const (
	statusApplied    = "APPLIED"
	statusRejected   = "REJECTED"
	statusDuplicate  = "DUPLICATE"
	statusParked     = "PARKED"
	statusDead       = "DEAD"
	statusDiscarded  = "DISCARDED"
	statusSuperseded = "SUPERSEDED"
	// statusCompensated: a person gave up on it, and its compensation is done.
	statusCompensated = "COMPENSATED"
	statusSuccess     = "SUCCESS"
)

// final reports whether an event with this status is done with.
func final(status string) bool {
	switch status {
	case statusApplied, statusSuccess, statusRejected, statusDuplicate, statusCompensated, statusDiscarded, statusSuperseded:
		return true
	}
	return false
}

// effective reports whether status says that the business has answered.
func effective(status string) bool {
	return final(status) && status != statusDiscarded && status != statusSuperseded
}

// waiting reports whether the event is kept by us and needs no delivery.
func waiting(status string) bool { return status == statusParked || status == statusDead }

// item is a settle.Item with what Apply needs to know of it, worked out once.
type item struct {
	*settle.Item
	// no is the processed_no that the item is recorded under.
	no        int64
	eventID   string
	eventType string
	key       string
	seq       int64
	// appended is zero where neither producer nor broker has told.
	appended time.Time
	// supersedes is the event this one was edited from, root the first of them.
	supersedes, root string
}

// newItem never fails: a record that could not be understood gets an id made
// of its place and its bytes, the same at each delivery, and can only die.
func newItem(group string, it *settle.Item, no int64) item {
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
		return item{Item: it, no: no, eventID: placeID(r), key: r.Key, appended: r.RecordedAt}
	}
	e := r.Event
	n := item{
		Item: it, no: no, eventID: e.ID, eventType: e.Type, key: e.Key(), seq: e.AggregateSeq,
		appended: e.AppendedAt, supersedes: e.Supersedes,
	}
	if n.appended.IsZero() {
		n.appended = r.RecordedAt
	}
	return n
}

func placeID(r *settle.Record) string {
	sum := sha256.Sum256(r.Raw)
	return fmt.Sprintf("record:%s/%d/%d:%s", r.At.Topic, r.At.Partition, r.Position, hex.EncodeToString(sum[:4]))
}

// payloadHash is what t_message_consume_log keeps of a payload.
func payloadHash(payload []byte) int64 {
	sum := sha256.Sum256(payload)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
