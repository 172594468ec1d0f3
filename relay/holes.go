package relay

import (
	"slices"
	"time"
)

// holeRounds gathers evidence that holes have no owner any more. Holes are
// asked about in rounds: a round begins with a token taken after its holes
// were seen, and is cleared once none of the transactions in the token is
// open. Evidence is never stored; a new life gathers it anew.
type holeRounds struct {
	last    int64 // newest round begun
	cleared int64 // newest round cleared
	polled  int64 // newest round cleared when the poll under way began
	// polledAt is when it began.
	polledAt time.Time
	token    Evidence
	began    time.Time
	waiting  bool // round last is not cleared yet
	first    bool // the question under way is for a token
	pause    time.Duration
	next     time.Time
}

// planOwners asks for evidence while there are holes that need it.
func (m *Machine) planOwners() {
	h := &m.rounds
	if m.asked[askOwners] || (!h.waiting && !m.newHoles()) || !m.reached(h.next) {
		return
	}
	if h.waiting {
		m.ask(askOwners, AskOwners{Before: h.token})
		return
	}
	h.last++
	h.waiting, h.first, h.began, h.pause = true, true, m.now, 50*time.Millisecond
	m.eachReader(func(r *reader) {
		for i := range r.unseen {
			if r.unseen[i].round == 0 {
				r.unseen[i].round = h.last
			}
		}
	})
	m.ask(askOwners, AskOwners{})
}

func (m *Machine) newHoles() bool {
	found := false
	m.eachReader(func(r *reader) {
		// A reader that has not probed what it left behind will find most of it.
		found = found || r.probed && slices.ContainsFunc(r.unseen, func(h hole) bool { return h.round == 0 })
	})
	return found
}

func (m *Machine) eachReader(do func(*reader)) {
	do(&m.main)
	for _, d := range m.dests {
		if d.reader != nil {
			do(d.reader)
		}
	}
}

func (m *Machine) ownersSeen(in OwnersSeen) {
	if !m.answered(askOwners) {
		return
	}
	m.storeAnswered()
	h := &m.rounds
	if h.first {
		// What this first answer says of "before" is void: nothing was named.
		h.token, h.first = in.Evidence, false
		h.next = m.now
		return
	}
	clear := in.Evidence.Clear
	if !h.token.Known || !in.Evidence.Known {
		clear = m.now.Sub(h.began) >= m.cfg.HoleGrace
	}
	if clear {
		h.waiting, h.cleared = false, h.last
		h.next = m.now.Add(h.pause)
		return
	}
	h.next = m.now.Add(h.pause)
	h.pause = min(2*h.pause, time.Second)
}

// isCold reports whether a hole that the page lacks has no owner: the poll
// began after its owners were seen gone, had the hole in its query and was not
// cut before it, and the hole is old enough.
func (m *Machine) isCold(h hole, in Polled) bool {
	if h.round == 0 || h.round > m.rounds.polled || m.rounds.polledAt.Sub(h.born) < m.cfg.HoleAge {
		return false
	}
	if _, asked := slices.BinarySearch(in.Query.Holes, h.id); !asked {
		return false
	}
	rows := in.Page.Rows
	return in.Page.Complete || len(rows) > 0 && h.id < rows[len(rows)-1].ID
}

func (m *Machine) markCold(ids []int64) {
	if len(ids) == 0 {
		return
	}
	m.eachReader(func(r *reader) { r.remove(ids...) })
	m.flush.Cold = append(m.flush.Cold, ids...)
	m.stats.Cold += int64(len(ids))
}
