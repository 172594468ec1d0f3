package consumelog

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
func (p *planner) counted(it *Item) bool { return p.w.OrderedBySeq && it.Seq > 0 }

// Aggregate names what the producer counts the item of.
func (it *Item) Aggregate() SeqKey {
	if it.Record.Event == nil {
		return SeqKey{}
	}
	return SeqKey{it.Record.Event.AggregateType, it.Key}
}

// sequence compares the item with the last one of its aggregate. The first
// that a group sees sets the base; what a person has replayed may pass.
func (p *planner) sequence(it *Item, held *RetryRow) order {
	if !p.counted(it) || held != nil && held.Replays > 0 {
		return inSequence
	}
	last, begun := p.Seqs[it.Aggregate()]
	for p.Passed[it.Aggregate()][last+1] {
		last++
	}
	switch {
	case !begun || it.Seq == last+1:
		return inSequence
	case it.Seq <= last:
		return outOfSequence
	}
	return sequenceGap
}

// gap parks an item whose predecessor has not come, and gives up once it has
// waited as long as the group allows.
func (p *planner) gap(it *Item, held *RetryRow, pos int64) Step {
	until := p.now.Add(p.w.GapTimeout)
	counting := held != nil && !held.GapSince.IsZero()
	if counting {
		until = held.GapSince.Add(p.w.GapTimeout)
		if !p.now.Before(until) {
			return p.die(it, held, pos, settle.VerdictDead, settle.ClassSequenceGap, "what is before it in the sequence never came", p.blocks(it))
		}
	}
	s := p.park(it, pos, settle.VerdictSequenceGap, settle.ClassSequenceGap, "what is before it in the sequence has not come", until)
	s.Place.Gap = !counting
	return s
}

func (p *planner) advance(it *Item) {
	k := it.Aggregate()
	if last, begun := p.Seqs[k]; begun && it.Seq <= last {
		return
	}
	p.Seqs[k] = it.Seq
	if !slices.Contains(p.moved, k) {
		p.moved = append(p.moved, k)
	}
}

// position is the item's place among the rows that hold its key: its own row,
// that of the event it was edited from, or behind them all.
func (p *planner) position(it *Item, edit *lineage) int64 {
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
func (p *planner) blocked(it *Item, pos int64) bool {
	if p.w.Pass {
		return false
	}
	if held, ok := p.Retries[it.RetryID]; ok && it.RetryID != 0 && !held.Blocking {
		return false
	}
	for _, b := range p.Blockers[it.Key] {
		if p.gone[b.ID] || b.ID == pos {
			continue
		}
		if p.counted(it) && b.Seq > 0 {
			if b.Seq < it.Seq {
				return true
			}
		} else if b.ID < pos {
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
	live []Member
	pos  int64
	// absent members have no log row, or one that says discarded.
	absent []string
}

func (p *planner) lineage(it *Item) lineage {
	var l lineage
	if it.Supersedes == "" {
		return l
	}
	members := p.Lineages[it.Root]
	for _, id := range []string{it.Root, it.Supersedes} {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.EventID == id }) {
			members = append(members, Member{EventID: id})
		}
	}
	for _, m := range members {
		row, known := p.Logged[m.EventID]
		switch {
		case m.EventID == it.EventID:
		case !known || row.Status == StatusDiscarded || row.No > it.No:
			l.absent = append(l.absent, m.EventID)
		case effective(row.Status):
			l.done = m.EventID
		case waiting(row.Status):
			l.live = append(l.live, m)
			if m.RetryID != 0 && !p.gone[m.RetryID] && (l.pos == 0 || m.RetryID < l.pos) {
				l.pos = m.RetryID
			}
		case row.Status != StatusSuperseded:
			if until := row.Processed.Add(p.takeoverAfter()); p.now.Before(until) {
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
func (l *lineage) closing(s Step) Step {
	if !s.Run && s.Place == nil {
		return s
	}
	for _, m := range l.live {
		s.Supersede = append(s.Supersede, m.EventID)
		s.Closed = append(s.Closed, Closing{m.EventID, govern.StateSuperseded})
		if m.RetryID != 0 && (s.Place == nil || s.Place.ID != m.RetryID) {
			s.Remove = append(s.Remove, m.RetryID)
			s.Promote = true
		}
	}
	s.Supersede = append(s.Supersede, l.absent...)
	return s
}
