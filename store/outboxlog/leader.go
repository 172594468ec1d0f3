package outboxlog

import (
	"time"

	"github.com/settlemq/settle/relay"
)

// Leader is who leads a lane, by its lease and the newest renewal; the zero
// value is that of a new table.
type Leader struct {
	Owner  string
	Epoch  int64
	Clean  bool // given back
	Deaths int
	Taken  time.Time
	// Expires is when the last renewal runs out, Now the time that it goes by.
	Expires, Now time.Time
}

// Free reports whether another than its owner may take the lease.
func (l Leader) Free(owner string) bool {
	return l.Epoch == 0 || l.Clean || l.Owner == owner || !l.Now.Before(l.Expires)
}

// Leap is how much longer than our own lease time another one's may run before
// the clock must have been set back since it was written.
const Leap = time.Minute

// Leapt reports whether the clock was set back since the lease was written.
func (l Leader) Leapt(ttl time.Duration) bool { return l.Expires.Sub(l.Now) > ttl+Leap }

// SuccessorDeaths is how many leaders in a row, up to this one, ended early.
// ttl is how long a lease runs.
func (l Leader) SuccessorDeaths(ttl time.Duration) int {
	switch {
	case l.Epoch == 0 || l.Clean:
		return 0
	case l.Expires.Add(-ttl).Sub(l.Taken) > relay.LongLife*ttl:
		return 1
	}
	return l.Deaths + 1
}
