package consumer

import (
	"time"
)

// remember is how long members that died are remembered: longer than any
// supervisor waits before it starts a process anew.
const remember = 30 * time.Minute

// roll is what is known of the members of a group whose partitions the broker
// assigns. Such a broker tells nobody of deaths, and keeps no floor of ours: a
// member says that it lives, and what it does not take back when it ends tells
// the others of its death.
//
// What is in hand is written down only while somebody has died of late, or may
// have: it costs a write for each transaction. So the first death of a row tells
// of no event, and from the second on exactly those that were in hand are tried
// alone, whoever gets them.
type roll struct {
	wanted, known, asking bool
	at                    time.Time // when to attend again
	// sure is when all are known who died before this member came.
	sure   time.Time
	deaths int
	inHand map[string]struct{}
}

func (r *roll) due(now time.Time) bool { return r.wanted && !r.asking && !now.Before(r.at) }

// watches reports whether what is in hand is to be written down.
func (r *roll) watches(now time.Time, suspectAfter int) bool {
	return r.deaths > 0 || suspectAfter <= 1 || now.Before(r.sure)
}

// suspects reports whether an event was in the hands of one that died, and
// enough have died.
func (r *roll) suspects(eventID string, after int) bool {
	if r.deaths < after {
		return false
	}
	_, is := r.inHand[eventID]
	return is
}

func (m *Machine) attended(in Attended) {
	r := &m.roll
	r.asking = false
	if in.Err != nil {
		m.storeDown(in.Err, false)
		return
	}
	m.storeUp(false)
	if !r.known {
		r.known, r.sure = true, m.now.Add(m.cfg.LeaseTTL)
	}
	r.at = m.now.Add(m.cfg.LeaseTTL / 3)
	before := r.deaths
	r.deaths, r.inHand = in.Departed.Deaths, nil
	if r.deaths >= m.cfg.SuspectAfter {
		r.inHand = make(map[string]struct{}, len(in.Departed.InHand))
		for _, id := range in.Departed.InHand {
			r.inHand[id] = struct{}{}
		}
	}
	switch {
	case before == 0 && r.deaths > 0:
		m.emit(Note{State: "members", Now: "dying", Name: m.group})
	case before > 0 && r.deaths == 0:
		m.emit(Note{State: "members", Now: "steady", Name: m.group})
	}
}
