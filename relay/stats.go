package relay

import "time"

// Stats is what a relay has done since it started and what it holds now.
type Stats struct {
	// Leading is true while this relay is the leader; Epoch is its lease's.
	Leading bool  `json:"leading"`
	Epoch   int64 `json:"epoch"`

	// Published counts acknowledged events; Duplicates those of them that the
	// broker said it had already; PublishedAgain those handed to the broker
	// once more after an unknown outcome.
	Published      int64 `json:"published"`
	Duplicates     int64 `json:"duplicates"`
	PublishedAgain int64 `json:"published_again"`
	// Parked, Dead, Delayed, Skipped, Cold and Late count rows recorded so.
	Parked  int64 `json:"parked"`
	Dead    int64 `json:"dead"`
	Delayed int64 `json:"delayed"`
	Skipped int64 `json:"skipped"`
	Cold    int64 `json:"cold"`
	Late    int64 `json:"late"`

	// Pending rows are in memory, in flight ones included; ParkedKeys are
	// blocked now; Holes are live; Behind counts destinations that have fallen
	// behind and read for themselves.
	Pending    int `json:"pending"`
	ParkedKeys int `json:"parked_keys"`
	Holes      int `json:"holes"`
	Behind     int `json:"behind"`
	// Cursor is the highest id read.
	Cursor int64 `json:"cursor"`
	// Lag is the age of the oldest event in memory that is not acknowledged.
	Lag time.Duration `json:"lag"`
}

// Stats returns the figures at the time now.
func (m *Machine) Stats(now time.Time) Stats {
	s := m.stats
	s.Leading, s.Epoch = m.phase == leading, m.lease.Epoch
	s.ParkedKeys, s.Cursor = m.parked, m.main.cursor
	s.Holes = len(m.main.unseen)
	s.Pending = len(m.sus.trial.items)
	for _, d := range m.dests {
		s.Pending += d.waiting() + len(d.flight.items)
		if d.reader != nil {
			s.Behind++
		}
		for _, rows := range [][]item{d.flight.items, d.queue[d.head:]} {
			if len(rows) > 0 && rows[0].row.Event != nil && !rows[0].row.Event.AppendedAt.IsZero() {
				s.Lag = max(s.Lag, now.Sub(rows[0].row.Event.AppendedAt))
			}
		}
	}
	return s
}

// plus adds what another relay has done.
func (s Stats) plus(o Stats) Stats {
	s.Published, s.Duplicates, s.PublishedAgain = s.Published+o.Published, s.Duplicates+o.Duplicates, s.PublishedAgain+o.PublishedAgain
	s.Parked, s.Dead, s.Delayed, s.Skipped = s.Parked+o.Parked, s.Dead+o.Dead, s.Delayed+o.Delayed, s.Skipped+o.Skipped
	s.Cold, s.Late = s.Cold+o.Cold, s.Late+o.Late
	return s
}
