package consumer

import (
	"time"

	"github.com/settlemq/settle"
)

// Stats counts what a group has done since it was started. Counts never fall.
type Stats struct {
	Group string `json:"consumer_group"`
	Core  bool   `json:"core"`
	// Received counts records as delivered, each delivery of them.
	Received  int64 `json:"received"`
	Applied   int64 `json:"applied"`
	Rejected  int64 `json:"rejected"`
	Duplicate int64 `json:"duplicate"`
	Ignored   int64 `json:"ignored"`
	// Compensated counts events that were given up, whatever their
	// compensation found to do; they are in none of the counts above.
	Compensated int64 `json:"compensated"`
	// Failed counts attempts that failed, Retried those after the first.
	Failed  int64 `json:"failed"`
	Retried int64 `json:"retried"`
	// Parked counts records that went to the retry store, Dead those that
	// became dead letters.
	Parked int64 `json:"parked"`
	Dead   int64 `json:"dead"`
	// Lag is the age of the oldest record in hand, 0 when there is none.
	Lag time.Duration `json:"lag"`
	// Open names the event types whose breaker is open.
	Open []string `json:"open_breakers,omitempty"`
	// Paused is true while a person has paused the group; StoreDown while its
	// database does not answer.
	Paused    bool `json:"paused"`
	StoreDown bool `json:"store_down"`
}

func (s *Stats) count(it *settle.Item, v settle.Verdict) {
	ran := v == settle.VerdictApplied || v == settle.VerdictRejected
	switch v {
	case settle.VerdictApplied, settle.VerdictRejected:
		switch {
		case it.Compensate:
			s.Compensated++
		case v == settle.VerdictApplied:
			s.Applied++
		default:
			s.Rejected++
		}
	case settle.VerdictIgnored:
		s.Ignored++
	case settle.VerdictDuplicate, settle.VerdictStored:
		s.Duplicate++
	case settle.VerdictDead, settle.VerdictBeyondWindow, settle.VerdictOutOfSequence:
		s.Dead++
	case settle.VerdictParked, settle.VerdictBlocked, settle.VerdictSequenceGap, settle.VerdictLeftOver:
		if it.RetryID == 0 {
			s.Parked++
		}
	}
	if it.Attempt > 1 && ran {
		s.Retried++
	}
}

// Stats returns the counts at time now.
func (m *Machine) Stats(now time.Time) Stats {
	s := m.stats
	s.Paused, s.StoreDown = m.controls.groupPaused, m.store.down
	for _, k := range m.order {
		if k.gate.open {
			s.Open = append(s.Open, k.name)
		}
	}
	for _, d := range m.queue {
		r := &d.records[d.first]
		at := r.RecordedAt
		if r.Event != nil && !r.Event.AppendedAt.IsZero() {
			at = r.Event.AppendedAt
		}
		if !at.IsZero() {
			s.Lag = max(s.Lag, now.Sub(at))
		}
	}
	return s
}
