package consumelog

import (
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// planner decides, item by item, what becomes of each. It is pure: facts go
// in, steps come out; what it decides for an item counts for the next.
type planner struct {
	Facts
	w     *settle.Work
	gone  map[int64]bool // rows of the retry store removed so far
	fresh int64          // next synthetic id of an added row, above all real ones
	moved []SeqKey
}

const addedRow = int64(1) << 62

// Plan returns a step for each item, and the places in sequences that move.
func Plan(w *settle.Work, items []Item, f Facts) ([]Step, []SeqMove) {
	p := &planner{Facts: f, w: w, gone: map[int64]bool{}, fresh: addedRow}
	steps := make([]Step, len(items))
	for i := range items {
		s := p.decide(&items[i])
		p.learn(&items[i], &s)
		steps[i] = s
	}
	moves := make([]SeqMove, len(p.moved))
	for i, k := range p.moved {
		moves[i] = SeqMove{k, p.Seqs[k]}
	}
	return steps, moves
}

func (p *planner) decide(it *Item) Step {
	if it.RetryID != 0 {
		return p.retried(it)
	}
	if it.Intent == settle.IntentIgnore && !p.counted(it) {
		return Step{Verdict: settle.VerdictIgnored}
	}
	row, known := p.row(it)
	switch {
	case !known:
		return p.admit(it, it.Appended.Before(p.Floor) && !it.Appended.IsZero() && !it.AcceptDuplicate, nil)
	case Final(row.Status):
		return Step{Verdict: settle.VerdictDuplicate}
	case waiting(row.Status):
		return Step{Verdict: settle.VerdictStored}
	}
	if until := row.Processed.Add(p.takeoverAfter()); p.now.Before(until) {
		return p.leftOver(it, until)
	}
	return p.admit(it, false, nil)
}

// row returns the log row that was there before this item, if any.
func (p *planner) row(it *Item) (LogRow, bool) {
	row, ok := p.Logged[it.EventID]
	if !ok || row.No == it.No {
		return LogRow{}, false
	}
	return row, true
}

func (p *planner) takeoverAfter() time.Duration {
	if p.w.TakeoverAfter > 0 {
		return p.w.TakeoverAfter
	}
	return 15 * time.Minute
}

// leftOver parks an event that a foreign consumer has begun and not ended. Its
// log row stays as it is: that consumer may still end it.
func (p *planner) leftOver(it *Item, until time.Time) Step {
	at := &Place{ID: it.RetryID, Blocking: p.blocks(it), NextAt: until, Class: settle.ClassLeftOver, Cause: "a foreign consumer has begun it and not ended it"}
	if p.blocked(it, p.position(it, nil)) {
		at.NextAt = time.Time{}
	}
	return Step{Verdict: settle.VerdictLeftOver, Place: at}
}

// retried decides about an item that waits in the retry store.
func (p *planner) retried(it *Item) Step {
	held, ok := p.Retries[it.RetryID]
	row, known := p.row(it)
	if !ok || held.EventID != it.EventID || p.gone[it.RetryID] || held.Dead || it.Compensate != (held.Compensate != "") {
		if known && Final(row.Status) {
			return Step{Verdict: settle.VerdictDuplicate}
		}
		return Step{Verdict: settle.VerdictStored}
	}
	switch {
	case known && Final(row.Status):
		return p.leave(it, Step{Verdict: settle.VerdictDuplicate})
	case known && !waiting(row.Status) && it.Intent == settle.IntentHandle:
		if until := row.Processed.Add(p.takeoverAfter()); p.now.Before(until) {
			return p.leftOver(it, until)
		}
	}
	return p.admit(it, false, &held)
}

// admit decides about an item that nothing has recorded as done. held is its
// row in the retry store, if it has one; tooOld means that it is older than
// the dedup floor and not in the log.
func (p *planner) admit(it *Item, tooOld bool, held *RetryRow) Step {
	if holder, ok := p.Effects[EffectKey{EventType: it.EventType, Key: it.EffectKey}]; ok && it.EffectKey != "" && holder != it.EventID && it.Intent == settle.IntentHandle && !it.Compensate {
		return p.leave(it, Step{Verdict: settle.VerdictDuplicate, Status: StatusDuplicate, Reason: "event " + holder + " has the effect key " + it.EffectKey})
	}
	edit := p.lineage(it)
	switch {
	case edit.done != "":
		return p.leave(it, Step{Verdict: settle.VerdictDuplicate, Status: StatusDuplicate, Reason: "event " + edit.done + " of the same lineage took effect"})
	case !edit.wait.IsZero():
		s := p.leftOver(it, edit.wait)
		s.Status = StatusParked
		return s
	}
	return edit.closing(p.settleItem(it, tooOld, held, &edit))
}

func (p *planner) settleItem(it *Item, tooOld bool, held *RetryRow, edit *lineage) Step {
	pos := p.position(it, edit)
	switch it.Intent {
	case settle.IntentDie:
		return p.die(it, held, pos, settle.VerdictDead, it.Class, it.Cause, p.blocks(it))
	case settle.IntentPark:
		if tooOld {
			return p.tooOld(it, pos)
		}
		return p.park(it, pos, settle.VerdictParked, it.Class, it.Cause, it.NextAt)
	}
	if tooOld && it.Intent == settle.IntentHandle {
		return p.tooOld(it, pos)
	}
	order := p.sequence(it, held)
	switch {
	case order == outOfSequence && it.Intent == settle.IntentIgnore:
		return p.run(it, held, false)
	case order == outOfSequence:
		return p.die(it, held, pos, settle.VerdictOutOfSequence, settle.ClassOutOfSequence, "its place in the sequence was passed", false)
	case p.blocked(it, pos):
		return p.park(it, pos, settle.VerdictBlocked, settle.ClassFollower, "waits behind a failed event of its key", time.Time{})
	case order == sequenceGap:
		return p.gap(it, held, pos)
	}
	return p.run(it, held, p.counted(it))
}

// run is the ordinary end: the handler runs, or an ignored event is passed.
func (p *planner) run(it *Item, held *RetryRow, advance bool) Step {
	s := Step{Verdict: settle.VerdictApplied, Run: true, Effect: true, advance: advance}
	if it.Intent == settle.IntentIgnore {
		s = Step{Verdict: settle.VerdictIgnored, Forget: held != nil, advance: advance}
	} else if held != nil && held.Compensate != "" {
		s.Status, s.Reason, s.Effect = StatusCompensated, held.Compensate, false
	} else if !p.inserted(it) {
		s.Status = StatusApplied
	}
	if advance {
		s.Promote = len(p.Blockers[it.Key]) > 0
	}
	return p.leave(it, s)
}

// inserted reports whether this Apply has inserted the log row of it.
func (p *planner) inserted(it *Item) bool {
	row, ok := p.Logged[it.EventID]
	return !ok && p.AllFresh || ok && row.No == it.No
}

// leave ends the stay of an item in the retry store, if it was there.
func (p *planner) leave(it *Item, s Step) Step {
	if it.RetryID == 0 {
		return s
	}
	s.Remove = append(s.Remove, it.RetryID)
	state := govern.StateReplayed
	if p.Retries[it.RetryID].Compensate != "" {
		state = govern.StateCompensated
	}
	s.Closed = append(s.Closed, Closing{it.EventID, state})
	s.Promote = true
	return s
}

func (p *planner) park(it *Item, pos int64, v settle.Verdict, class settle.Class, cause string, next time.Time) Step {
	at := &Place{ID: p.take(it, pos), Blocking: p.blocks(it), NextAt: next, Class: class, Cause: cause}
	if v != settle.VerdictBlocked && p.blocked(it, pos) {
		at.NextAt = time.Time{}
	} else if v == settle.VerdictParked && next.IsZero() {
		at.NextAt = p.now
	}
	return Step{Verdict: v, Status: StatusParked, Place: at}
}

func (p *planner) tooOld(it *Item, pos int64) Step {
	return p.die(it, nil, pos, settle.VerdictBeyondWindow, settle.ClassBeyondWindow,
		"appended "+it.Appended.UTC().Format(time.RFC3339)+", before the dedup floor "+p.Floor.UTC().Format(time.RFC3339)+": it may have been applied already", false)
}

// die opens a dead letter. With blocking its row in the retry store stays, or
// is made, as the head that holds the key.
func (p *planner) die(it *Item, held *RetryRow, pos int64, v settle.Verdict, class settle.Class, cause string, blocking bool) Step {
	s := Step{Verdict: v, Status: StatusDead, Letter: &Letter{Class: class, Cause: cause, Blocking: blocking}}
	if blocking {
		s.Place = &Place{ID: p.take(it, pos), Dead: true, Blocking: true, Class: class, Cause: cause}
		return s
	}
	if held != nil {
		s.Remove, s.Promote = []int64{it.RetryID}, true
	}
	// A sequence goes on behind an event that nothing waits for.
	s.advance = v == settle.VerdictDead && p.counted(it) && p.sequence(it, nil) == inSequence
	return s
}

// take returns the row of the retry store that the item is written to.
func (p *planner) take(it *Item, pos int64) int64 {
	if it.RetryID != 0 || pos >= addedRow {
		return it.RetryID
	}
	return pos
}

// blocks reports whether the item, once parked or dead, holds its key.
func (p *planner) blocks(it *Item) bool {
	if held, ok := p.Retries[it.RetryID]; ok && it.RetryID != 0 {
		return held.Blocking
	}
	return !p.w.Pass && it.Key != ""
}

// learn makes what was decided for one item a fact for those after it.
func (p *planner) learn(it *Item, s *Step) {
	switch {
	case s.Status != "":
		p.Logged[it.EventID] = LogRow{No: it.No, Status: s.Status, Processed: p.now}
	case s.Run:
		p.Logged[it.EventID] = LogRow{No: it.No, Status: StatusApplied, Processed: p.now}
	case s.Forget:
		delete(p.Logged, it.EventID)
	}
	if key := (EffectKey{EventType: it.EventType, Key: it.EffectKey}); it.EffectKey != "" {
		if s.Run && s.Effect {
			p.Effects[key] = it.EventID
		} else if p.Effects[key] == it.EventID {
			delete(p.Effects, key)
		}
	}
	for _, id := range s.Remove {
		p.gone[id] = true
	}
	for _, id := range s.Supersede {
		p.Logged[id] = LogRow{No: -1, Status: StatusSuperseded, Processed: p.now}
	}
	if it.Supersedes != "" && s.Status != "" {
		p.Lineages[it.Root] = append(p.Lineages[it.Root], Member{EventID: it.EventID})
	}
	if s.Place != nil && s.Place.ID == 0 && s.Place.Blocking {
		p.Blockers[it.Key] = append(p.Blockers[it.Key], Blocker{ID: p.fresh, Seq: it.Seq})
		p.fresh++
	}
	if s.advance {
		p.advance(it)
	}
}
