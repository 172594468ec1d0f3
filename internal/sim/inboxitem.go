package sim

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// item does what Apply says of one item, in the order that the contract gives:
// the log row first, then what is there decides.
func (x *inboxModel) item(wk *settle.Work, it *settle.Item, i int, handle handler) settle.Result {
	r := x.decide(wk, it, i, handle)
	x.w.hist.note(x.w.Since(), x.group.Name, "item", recordID(&it.Record), int(it.Intent), int(r.Verdict), it.Attempt, it.RetryID)
	return r
}

func (x *inboxModel) decide(wk *settle.Work, it *settle.Item, i int, handle handler) settle.Result {
	id, e := recordID(&it.Record), it.Record.Event
	row := x.log[id]
	held := x.retryByID(it.RetryID)
	if it.RetryID != 0 && (held == nil || held.eventID != id || held.dead || held.item.Compensate != it.Compensate) {
		if row != nil && row.status.final() {
			return verdict(settle.VerdictDuplicate)
		}
		return verdict(settle.VerdictStored)
	}
	switch {
	case held == nil && it.Intent == settle.IntentIgnore && !(wk.OrderedBySeq && e.AggregateSeq > 0):
		return verdict(settle.VerdictIgnored)
	case row == nil:
	case row.status.final() && held != nil:
		x.leaveRetry(held)
		return verdict(settle.VerdictDuplicate)
	case row.status.final():
		x.w.probes.hit("duplicate delivered")
		return verdict(settle.VerdictDuplicate)
	case row.status.waiting() && held == nil:
		return verdict(settle.VerdictStored)
	case row.status == logProcessing && held == nil && slices.ContainsFunc(x.retry, func(r *retryRow) bool { return r.eventID == id }):
		return verdict(settle.VerdictLeftOver)
	case row.status == logProcessing:
		if until := row.processed.Add(takeover(wk)); x.w.dbNow().Before(until) {
			x.w.probes.hit("left-over row waits")
			return x.park(wk, it, held, until, settle.ClassLeftOver, settle.VerdictLeftOver)
		}
		x.w.probes.hit("left-over row taken over")
	}
	if e == nil || it.Intent == settle.IntentDie {
		return x.die(wk, it, held, it.Class, settle.VerdictDead, x.blocks(wk, it, held))
	}
	return x.decideEvent(wk, it, i, held, row == nil, handle)
}

func verdict(v settle.Verdict) settle.Result { return settle.Result{Verdict: v} }

func takeover(wk *settle.Work) time.Duration {
	if wk.TakeoverAfter > 0 {
		return wk.TakeoverAfter
	}
	return 15 * time.Minute
}

func (x *inboxModel) decideEvent(wk *settle.Work, it *settle.Item, i int, held *retryRow, fresh bool, handle handler) settle.Result {
	e := it.Record.Event
	counted := wk.OrderedBySeq && e.AggregateSeq > 0
	tooOld := fresh && e.AppendedAt.Before(x.floor) && !it.AcceptDuplicate && (held == nil || !held.accept)
	switch {
	case it.Intent == settle.IntentIgnore && !counted:
		return x.run(it, i, held, counted, handle)
	case tooOld && it.Intent != settle.IntentIgnore:
		x.w.probes.hit("event beyond the dedup floor")
		return x.die(wk, it, held, settle.ClassBeyondWindow, settle.VerdictBeyondWindow, false)
	case it.Intent == settle.IntentPark:
		return x.park(wk, it, held, it.NextAt, it.Class, settle.VerdictParked)
	}
	last, begun := x.seqs[e.AggregateID]
	replayed := held != nil && held.replays > 0
	switch {
	case counted && begun && e.AggregateSeq <= last && !replayed:
		if it.Intent == settle.IntentIgnore {
			return x.run(it, i, held, false, handle)
		}
		x.w.probes.hit("event out of sequence")
		return x.die(wk, it, held, settle.ClassOutOfSequence, settle.VerdictOutOfSequence, false)
	case x.blocked(wk, it, held):
		x.w.probes.hit("event behind a failed one")
		return x.park(wk, it, held, time.Time{}, settle.ClassFollower, settle.VerdictBlocked)
	case counted && begun && e.AggregateSeq > last+1 && !replayed:
		return x.gap(wk, it, held)
	}
	return x.run(it, i, held, counted, handle)
}

func (x *inboxModel) run(it *settle.Item, i int, held *retryRow, counted bool, handle handler) settle.Result {
	e := it.Record.Event
	if it.Intent == settle.IntentIgnore {
		if counted {
			x.advance(e)
		}
		if held != nil {
			x.leaveRetry(held)
			x.forgetLog(e.ID)
		}
		x.promote(e.AggregateID)
		return verdict(settle.VerdictIgnored)
	}
	status, v := logApplied, settle.VerdictApplied
	if other, ok := x.keys[it.EffectKey]; ok && it.EffectKey != "" && other != e.ID {
		x.w.probes.hit("effect key known")
		status, v = logDuplicate, settle.VerdictDuplicate
	} else if err := x.underLocks(i, handle); err != nil {
		if _, rejected := settle.Rejected(err); !rejected {
			return settle.Result{Verdict: settle.VerdictFailed, Err: err}
		}
		status, v = logRejected, settle.VerdictRejected
		x.w.probes.hit("event rejected")
	}
	if it.EffectKey != "" && status == logApplied {
		x.keys[it.EffectKey] = e.ID
		x.undo = append(x.undo, func() { delete(x.keys, it.EffectKey) })
	}
	if it.Compensate {
		status = logGivenUp
	}
	x.setLog(e.ID, status, e.AppendedAt)
	if counted {
		x.advance(e)
	}
	if held != nil {
		x.w.probes.hit("retry succeeded")
		x.leaveRetry(held)
	}
	x.promote(e.AggregateID)
	return verdict(v)
}

func (x *inboxModel) advance(e *settle.Event) {
	before, begun := x.seqs[e.AggregateID]
	if begun && e.AggregateSeq <= before {
		return
	}
	x.seqs[e.AggregateID] = e.AggregateSeq
	x.undo = append(x.undo, func() {
		if delete(x.seqs, e.AggregateID); begun {
			x.seqs[e.AggregateID] = before
		}
	})
}

// leaveRetry ends the stay of a row in the retry store.
func (x *inboxModel) leaveRetry(held *retryRow) {
	x.remove(held.id)
	x.promote(held.key)
	for _, l := range x.letters {
		if l.eventID == held.eventID && l.open {
			l.open = false
			x.undo = append(x.undo, func() { l.open = true })
		}
	}
}

// blocks reports whether the item, once parked or dead, holds its key.
func (x *inboxModel) blocks(wk *settle.Work, it *settle.Item, held *retryRow) bool {
	if held != nil {
		return held.blocking
	}
	return !wk.Pass && recordKey(&it.Record) != ""
}

// blocked reports whether a row before the item holds its key.
func (x *inboxModel) blocked(wk *settle.Work, it *settle.Item, held *retryRow) bool {
	e := it.Record.Event
	if wk.Pass || (held != nil && !held.blocking) {
		return false
	}
	for _, r := range x.retry {
		switch {
		case r.key != e.AggregateID || !r.blocking || r == held:
		case wk.OrderedBySeq && e.AggregateSeq > 0 && r.seq > 0:
			if r.seq < e.AggregateSeq {
				return true
			}
		case held == nil || r.id < held.id:
			return true
		}
	}
	return false
}

func (x *inboxModel) park(wk *settle.Work, it *settle.Item, held *retryRow, next time.Time, class settle.Class, v settle.Verdict) settle.Result {
	if v == settle.VerdictParked {
		if next.IsZero() {
			next = x.w.dbNow()
		}
		if x.blocked(wk, it, held) {
			next = time.Time{}
		}
		x.w.check.attempts(x.group.Name, recordID(&it.Record), it.Attempt)
	}
	x.place(wk, it, held, class).nextAt = next
	if row := x.log[recordID(&it.Record)]; v != settle.VerdictLeftOver && (row == nil || row.status != logProcessing || v == settle.VerdictParked) {
		x.setLog(recordID(&it.Record), logParked, it.Record.Event.AppendedAt)
	}
	x.w.probes.hit("event parked by a group")
	return verdict(v)
}

// gap parks an event whose predecessor has not come, for a bounded time.
func (x *inboxModel) gap(wk *settle.Work, it *settle.Item, held *retryRow) settle.Result {
	now := x.w.dbNow()
	until, counting := now.Add(wk.GapTimeout), held != nil && held.item.Class == settle.ClassSequenceGap
	if counting {
		if until = held.parked.Add(wk.GapTimeout); !now.Before(until) {
			x.w.probes.hit("gap in a sequence timed out")
			return x.die(wk, it, held, settle.ClassSequenceGap, settle.VerdictDead, x.blocks(wk, it, held))
		}
	}
	x.w.probes.hit("gap in a sequence")
	parked := now
	if counting {
		parked = held.parked
	}
	r := x.place(wk, it, held, settle.ClassSequenceGap)
	r.nextAt, r.parked = until, parked
	x.setLog(it.Record.Event.ID, logParked, it.Record.Event.AppendedAt)
	return verdict(settle.VerdictSequenceGap)
}

// place writes the item into the retry store, at its row or a new one.
func (x *inboxModel) place(wk *settle.Work, it *settle.Item, held *retryRow, class settle.Class) *retryRow {
	r := retryRow{eventID: recordID(&it.Record), key: recordKey(&it.Record), parked: x.w.dbNow()}
	if held != nil {
		r = *held
	}
	r.blocking = x.blocks(wk, it, held)
	r.item = *it
	r.item.Class = class
	if it.Record.Event != nil {
		r.seq = it.Record.Event.AggregateSeq
	}
	return x.put(r)
}

func (x *inboxModel) die(wk *settle.Work, it *settle.Item, held *retryRow, class settle.Class, v settle.Verdict, blocking bool) settle.Result {
	id := recordID(&it.Record)
	l := &letter{eventID: id, record: it.Record, class: class, open: true}
	if blocking {
		r := x.place(wk, it, held, class)
		r.dead, r.nextAt = true, time.Time{}
		l.retryID = r.id
	} else if held != nil {
		x.remove(held.id)
		x.promote(held.key)
	}
	if e := it.Record.Event; e != nil && !blocking && v == settle.VerdictDead && wk.OrderedBySeq && e.AggregateSeq > 0 {
		if last, begun := x.seqs[e.AggregateID]; !begun || e.AggregateSeq == last+1 {
			x.advance(e)
		}
	}
	before := x.letters
	x.letters = append(slices.DeleteFunc(slices.Clone(before), func(o *letter) bool { return o.eventID == id }), l)
	x.undo = append(x.undo, func() { x.letters = before })
	appended := it.Record.RecordedAt
	if it.Record.Event != nil {
		appended = it.Record.Event.AppendedAt
	}
	x.setLog(id, logDead, appended)
	x.w.check.deadLetter(x, l, it.Attempt)
	x.w.probes.hit("consumer dead letter " + string(class))
	return verdict(v)
}
