package sqlite

import (
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// facts is what the database says, inside the transaction, about the items of
// one Apply.
type facts struct {
	now   time.Time
	floor time.Time // the group's dedup floor; zero: none
	// logged holds the log rows of the items' events, also those that this
	// Apply has just inserted. An event that is not in it was inserted if
	// allFresh, else it has no row.
	logged   map[string]logRow
	allFresh bool
	// retries holds the rows of the retry store named by items.
	retries map[int64]retryRow
	// blockers holds, for each key with rows that hold it, more of the first
	// of them than the Apply can remove.
	blockers map[string][]blocker
	// lineages holds the log rows of edited events, by root.
	lineages map[string][]member
	// effects tells which event holds an effect key.
	effects map[effectKey]string
	// seqs is how far each aggregate has come; passed are the places above that
	// whose events people have discarded.
	seqs   map[seqKey]int64
	passed map[seqKey]map[int64]bool
}

type logRow struct {
	no        int64
	status    string
	processed time.Time
}

type retryRow struct {
	eventID  string
	dead     bool
	blocking bool
	replays  int
	gapSince time.Time
	// compensate is by whom and why it is given up; "": it is to be handled.
	compensate string
}

type blocker struct {
	id  int64
	seq int64
}

type member struct {
	eventID string
	retryID int64
}

type effectKey struct{ eventType, key string }

type seqKey struct{ aggregateType, aggregateID string }

type seqMove struct {
	seqKey
	last int64
}

// newFacts returns facts that know of nothing.
func newFacts(now time.Time) facts {
	return facts{
		now: now, allFresh: true, logged: map[string]logRow{}, retries: map[int64]retryRow{}, blockers: map[string][]blocker{},
		lineages: map[string][]member{}, effects: map[effectKey]string{}, seqs: map[seqKey]int64{}, passed: map[seqKey]map[int64]bool{},
	}
}

// place is a row of the retry store to be written: id 0 is a new one.
type place struct {
	id       int64
	dead     bool
	blocking bool
	nextAt   time.Time // zero: waits for the row before it
	class    settle.Class
	cause    string
	gap      bool // a gap before it is seen for the first time
}

type letter struct {
	class    settle.Class
	cause    string
	blocking bool
}

type closing struct{ eventID, state string }

// step is what becomes of one item: everything that Apply writes about it.
type step struct {
	verdict settle.Verdict
	// run the handler; what follows is written only if it succeeds.
	run bool
	// status that the log row gets; "" leaves it as it was inserted or found.
	status string
	effect bool
	reason string
	forget bool // the log row goes: an ignored event leaves none
	place  *place
	remove []int64 // rows of the retry store that go
	letter *letter
	closed []closing // dead letters that end
	// supersede lists events whose log row becomes SUPERSEDED.
	supersede []string
	advance   bool // the sequence moves to the item's
	promote   bool // the next row of the key becomes due
}

// planner decides, item by item, what becomes of each. It is pure: facts go
// in, steps come out; what it decides for an item counts for the next.
type planner struct {
	facts
	w     *settle.Work
	gone  map[int64]bool // rows of the retry store removed so far
	fresh int64          // next synthetic id of an added row, above all real ones
	moved []seqKey
}

const addedRow = int64(1) << 62

// plan returns a step for each item, and the places in sequences that move.
func plan(w *settle.Work, items []item, f facts) ([]step, []seqMove) {
	p := &planner{facts: f, w: w, gone: map[int64]bool{}, fresh: addedRow}
	steps := make([]step, len(items))
	for i := range items {
		s := p.decide(&items[i])
		p.learn(&items[i], &s)
		steps[i] = s
	}
	moves := make([]seqMove, len(p.moved))
	for i, k := range p.moved {
		moves[i] = seqMove{k, p.seqs[k]}
	}
	return steps, moves
}

func (p *planner) decide(it *item) step {
	if it.RetryID != 0 {
		return p.retried(it)
	}
	if it.Intent == settle.IntentIgnore && !p.counted(it) {
		return step{verdict: settle.VerdictIgnored}
	}
	row, known := p.row(it)
	switch {
	case !known:
		return p.admit(it, it.appended.Before(p.floor) && !it.appended.IsZero() && !it.AcceptDuplicate, nil)
	case final(row.status):
		return step{verdict: settle.VerdictDuplicate}
	case waiting(row.status):
		return step{verdict: settle.VerdictStored}
	}
	if until := row.processed.Add(p.takeoverAfter()); p.now.Before(until) {
		return p.leftOver(it, until)
	}
	return p.admit(it, false, nil)
}

// row returns the log row that was there before this item, if any.
func (p *planner) row(it *item) (logRow, bool) {
	row, ok := p.logged[it.eventID]
	if !ok || row.no == it.no {
		return logRow{}, false
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
func (p *planner) leftOver(it *item, until time.Time) step {
	at := &place{id: it.RetryID, blocking: p.blocks(it), nextAt: until, class: settle.ClassLeftOver, cause: "a foreign consumer has begun it and not ended it"}
	if p.blocked(it, p.position(it, nil)) {
		at.nextAt = time.Time{}
	}
	return step{verdict: settle.VerdictLeftOver, place: at}
}

// retried decides about an item that waits in the retry store.
func (p *planner) retried(it *item) step {
	held, ok := p.retries[it.RetryID]
	row, known := p.row(it)
	if !ok || held.eventID != it.eventID || p.gone[it.RetryID] || held.dead || it.Compensate != (held.compensate != "") {
		if known && final(row.status) {
			return step{verdict: settle.VerdictDuplicate}
		}
		return step{verdict: settle.VerdictStored}
	}
	switch {
	case known && final(row.status):
		return p.leave(it, step{verdict: settle.VerdictDuplicate})
	case known && !waiting(row.status) && it.Intent == settle.IntentHandle:
		if until := row.processed.Add(p.takeoverAfter()); p.now.Before(until) {
			return p.leftOver(it, until)
		}
	}
	return p.admit(it, false, &held)
}

// admit decides about an item that nothing has recorded as done. held is its
// row in the retry store, if it has one; tooOld means that it is older than
// the dedup floor and not in the log.
func (p *planner) admit(it *item, tooOld bool, held *retryRow) step {
	if holder, ok := p.effects[effectKey{it.eventType, it.EffectKey}]; ok && it.EffectKey != "" && holder != it.eventID && it.Intent == settle.IntentHandle && !it.Compensate {
		return p.leave(it, step{verdict: settle.VerdictDuplicate, status: statusDuplicate, reason: "event " + holder + " has the effect key " + it.EffectKey})
	}
	edit := p.lineage(it)
	switch {
	case edit.done != "":
		return p.leave(it, step{verdict: settle.VerdictDuplicate, status: statusDuplicate, reason: "event " + edit.done + " of the same lineage took effect"})
	case !edit.wait.IsZero():
		s := p.leftOver(it, edit.wait)
		s.status = statusParked
		return s
	}
	return edit.closing(p.settleItem(it, tooOld, held, &edit))
}

func (p *planner) settleItem(it *item, tooOld bool, held *retryRow, edit *lineage) step {
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
func (p *planner) run(it *item, held *retryRow, advance bool) step {
	s := step{verdict: settle.VerdictApplied, run: true, effect: true, advance: advance}
	if it.Intent == settle.IntentIgnore {
		s = step{verdict: settle.VerdictIgnored, forget: held != nil, advance: advance}
	} else if held != nil && held.compensate != "" {
		s.status, s.reason, s.effect = statusCompensated, held.compensate, false
	} else if !p.inserted(it) {
		s.status = statusApplied
	}
	if advance {
		s.promote = len(p.blockers[it.key]) > 0
	}
	return p.leave(it, s)
}

// inserted reports whether this Apply has inserted the log row of it.
func (p *planner) inserted(it *item) bool {
	row, ok := p.logged[it.eventID]
	return !ok && p.allFresh || ok && row.no == it.no
}

// leave ends the stay of an item in the retry store, if it was there.
func (p *planner) leave(it *item, s step) step {
	if it.RetryID == 0 {
		return s
	}
	s.remove = append(s.remove, it.RetryID)
	state := govern.StateReplayed
	if p.retries[it.RetryID].compensate != "" {
		state = govern.StateCompensated
	}
	s.closed = append(s.closed, closing{it.eventID, state})
	s.promote = true
	return s
}

func (p *planner) park(it *item, pos int64, v settle.Verdict, class settle.Class, cause string, next time.Time) step {
	at := &place{id: p.take(it, pos), blocking: p.blocks(it), nextAt: next, class: class, cause: cause}
	if v != settle.VerdictBlocked && p.blocked(it, pos) {
		at.nextAt = time.Time{}
	} else if v == settle.VerdictParked && next.IsZero() {
		at.nextAt = p.now
	}
	return step{verdict: v, status: statusParked, place: at}
}

func (p *planner) tooOld(it *item, pos int64) step {
	return p.die(it, nil, pos, settle.VerdictBeyondWindow, settle.ClassBeyondWindow,
		"appended "+it.appended.UTC().Format(time.RFC3339)+", before the dedup floor "+p.floor.UTC().Format(time.RFC3339)+": it may have been applied already", false)
}

// die opens a dead letter. With blocking its row in the retry store stays, or
// is made, as the head that holds the key.
func (p *planner) die(it *item, held *retryRow, pos int64, v settle.Verdict, class settle.Class, cause string, blocking bool) step {
	s := step{verdict: v, status: statusDead, letter: &letter{class: class, cause: cause, blocking: blocking}}
	if blocking {
		s.place = &place{id: p.take(it, pos), dead: true, blocking: true, class: class, cause: cause}
		return s
	}
	if held != nil {
		s.remove, s.promote = []int64{it.RetryID}, true
	}
	// A sequence goes on behind an event that nothing waits for.
	s.advance = v == settle.VerdictDead && p.counted(it) && p.sequence(it, nil) == inSequence
	return s
}

// take returns the row of the retry store that the item is written to.
func (p *planner) take(it *item, pos int64) int64 {
	if it.RetryID != 0 || pos >= addedRow {
		return it.RetryID
	}
	return pos
}

// blocks reports whether the item, once parked or dead, holds its key.
func (p *planner) blocks(it *item) bool {
	if held, ok := p.retries[it.RetryID]; ok && it.RetryID != 0 {
		return held.blocking
	}
	return !p.w.Pass && it.key != ""
}

// learn makes what was decided for one item a fact for those after it.
func (p *planner) learn(it *item, s *step) {
	switch {
	case s.status != "":
		p.logged[it.eventID] = logRow{no: it.no, status: s.status, processed: p.now}
	case s.run:
		p.logged[it.eventID] = logRow{no: it.no, status: statusApplied, processed: p.now}
	case s.forget:
		delete(p.logged, it.eventID)
	}
	if key := (effectKey{it.eventType, it.EffectKey}); it.EffectKey != "" {
		if s.run && s.effect {
			p.effects[key] = it.eventID
		} else if p.effects[key] == it.eventID {
			delete(p.effects, key)
		}
	}
	for _, id := range s.remove {
		p.gone[id] = true
	}
	for _, id := range s.supersede {
		p.logged[id] = logRow{no: -1, status: statusSuperseded, processed: p.now}
	}
	if it.supersedes != "" && s.status != "" {
		p.lineages[it.root] = append(p.lineages[it.root], member{eventID: it.eventID})
	}
	if s.place != nil && s.place.id == 0 && s.place.blocking {
		p.blockers[it.key] = append(p.blockers[it.key], blocker{id: p.fresh, seq: it.seq})
		p.fresh++
	}
	if s.advance {
		p.advance(it)
	}
}
