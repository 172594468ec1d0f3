package sqlite

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// order is where an event stands in its producer's count.
type order int

const (
	inSequence order = iota // next, or not counted
	outOfSequence
	sequenceGap
)

// counted reports whether the group follows the producer's count of the item.
func (p *planner) counted(it *item) bool { return p.w.OrderedBySeq && it.seq > 0 }

func (it *item) aggregate() seqKey {
	if it.Record.Event == nil {
		return seqKey{}
	}
	return seqKey{it.Record.Event.AggregateType, it.key}
}

// sequence compares the item with the last one of its aggregate. The first
// that a group sees sets the base; what a person has replayed may pass.
func (p *planner) sequence(it *item, held *retryRow) order {
	if !p.counted(it) || held != nil && held.replays > 0 {
		return inSequence
	}
	last, begun := p.seqs[it.aggregate()]
	for p.passed[it.aggregate()][last+1] {
		last++
	}
	switch {
	case !begun || it.seq == last+1:
		return inSequence
	case it.seq <= last:
		return outOfSequence
	}
	return sequenceGap
}

// gap parks an item whose predecessor has not come, and gives up once it has
// waited as long as the group allows.
func (p *planner) gap(it *item, held *retryRow, pos int64) step {
	until := p.now.Add(p.w.GapTimeout)
	counting := held != nil && !held.gapSince.IsZero()
	if counting {
		until = held.gapSince.Add(p.w.GapTimeout)
		if !p.now.Before(until) {
			return p.die(it, held, pos, settle.VerdictDead, settle.ClassSequenceGap, "what is before it in the sequence never came", p.blocks(it))
		}
	}
	s := p.park(it, pos, settle.VerdictSequenceGap, settle.ClassSequenceGap, "what is before it in the sequence has not come", until)
	s.place.gap = !counting
	return s
}

func (p *planner) advance(it *item) {
	k := it.aggregate()
	if last, begun := p.seqs[k]; begun && it.seq <= last {
		return
	}
	p.seqs[k] = it.seq
	if !slices.Contains(p.moved, k) {
		p.moved = append(p.moved, k)
	}
}

// position is the item's place among the rows that hold its key: its own row,
// that of the event it was edited from, or behind them all.
func (p *planner) position(it *item, edit *lineage) int64 {
	switch {
	case it.RetryID != 0:
		return it.RetryID
	case edit != nil && edit.pos != 0:
		return edit.pos
	}
	return p.fresh
}

// blocked reports whether something before the item holds its key. In a group
// that follows the producer's count that count says what is before.
func (p *planner) blocked(it *item, pos int64) bool {
	if p.w.Pass {
		return false
	}
	if held, ok := p.retries[it.RetryID]; ok && it.RetryID != 0 && !held.blocking {
		return false
	}
	for _, b := range p.blockers[it.key] {
		if p.gone[b.id] || b.id == pos {
			continue
		}
		if p.counted(it) && b.seq > 0 {
			if b.seq < it.seq {
				return true
			}
		} else if b.id < pos {
			return true
		}
	}
	return false
}

// lineage is what an edited event stands in for.
type lineage struct {
	// done is a member that has taken effect; wait is until when another may
	// still be in the hands of a foreign consumer.
	done string
	wait time.Time
	// live members are parked or dead; pos is the first row that one has in
	// the retry store.
	live []member
	pos  int64
	// absent members have no log row, or one that says discarded.
	absent []string
}

func (p *planner) lineage(it *item) lineage {
	var l lineage
	if it.supersedes == "" {
		return l
	}
	members := p.lineages[it.root]
	for _, id := range []string{it.root, it.supersedes} {
		if !slices.ContainsFunc(members, func(m member) bool { return m.eventID == id }) {
			members = append(members, member{eventID: id})
		}
	}
	for _, m := range members {
		row, known := p.logged[m.eventID]
		switch {
		case m.eventID == it.eventID:
		case !known || row.status == statusDiscarded || row.no > it.no:
			l.absent = append(l.absent, m.eventID)
		case effective(row.status):
			l.done = m.eventID
		case waiting(row.status):
			l.live = append(l.live, m)
			if m.retryID != 0 && !p.gone[m.retryID] && (l.pos == 0 || m.retryID < l.pos) {
				l.pos = m.retryID
			}
		case row.status != statusSuperseded:
			if until := row.processed.Add(p.takeoverAfter()); p.now.Before(until) {
				l.wait = until
			} else {
				l.live = append(l.live, m)
			}
		}
	}
	return l
}

// closing adds to the step of an edited event that it takes the place of
// those before it in its lineage.
func (l *lineage) closing(s step) step {
	if !s.run && s.place == nil {
		return s
	}
	for _, m := range l.live {
		s.supersede = append(s.supersede, m.eventID)
		s.closed = append(s.closed, closing{m.eventID, govern.StateSuperseded})
		if m.retryID != 0 && (s.place == nil || s.place.id != m.retryID) {
			s.remove = append(s.remove, m.retryID)
			s.promote = true
		}
	}
	s.supersede = append(s.supersede, l.absent...)
	return s
}
