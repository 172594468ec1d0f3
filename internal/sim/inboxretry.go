package sim

import (
	"slices"

	"github.com/settlemq/settle"
)

// The retry store: rows that wait, in the order of their ids.

func (x *inboxModel) retryByID(id int64) *retryRow {
	for _, r := range x.retry {
		if r.id == id {
			return r
		}
	}
	return nil
}

// put adds or replaces a row of the retry store.
func (x *inboxModel) put(r retryRow) *retryRow {
	before := x.retry
	x.undo = append(x.undo, func() { x.retry = before })
	if r.id == 0 {
		x.retryNo++
		r.id = x.retryNo
		x.retry = append(slices.Clone(before), &r)
		return &r
	}
	x.retry = slices.Clone(before)
	for i, old := range x.retry {
		if old.id == r.id {
			x.retry[i] = &r
		}
	}
	return &r
}

// remove takes a row out of the retry store; what follows in its key is due.
func (x *inboxModel) remove(id int64) {
	before := x.retry
	x.undo = append(x.undo, func() { x.retry = before })
	x.retry = slices.DeleteFunc(slices.Clone(before), func(r *retryRow) bool { return r.id == id })
}

// promote makes the row that is next in its key due: the first one, or the one
// with the lowest count where the group follows the producer's.
func (x *inboxModel) promote(key string) {
	var first *retryRow
	for _, r := range x.retry {
		if r.key == key && r.blocking && (first == nil || (x.group.OrderedBySeq && r.seq > 0 && r.seq < first.seq)) {
			first = r
		}
	}
	if first == nil || first.dead || (!first.nextAt.IsZero() && first.item.Class != settle.ClassSequenceGap) {
		return
	}
	next := *first
	next.nextAt = x.w.dbNow()
	x.put(next)
}
