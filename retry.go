package settle

import (
	"hash/fnv"
	"math"
	"time"
)

// RetryPolicy decides when a failed attempt is followed by another.
type RetryPolicy interface {
	// Next returns the wait after the given attempt (the first is 1) of the
	// event with this id, or false when it was the last one and the event
	// becomes a dead letter. It must be pure: the same arguments give the same
	// answer. It is not asked about errors marked Permanent, RejectError or
	// Unavailable.
	Next(eventID string, attempt int, err error) (wait time.Duration, again bool)
}

// Backoff waits min(Max, Base·2^attempt), less up to Jitter of it. The zero
// value is ready to use.
type Backoff struct {
	// Base is the unit of the wait. Defaults to 1 s, so that the wait after the
	// n-th attempt is min(300 s, 2^n s).
	Base time.Duration
	// Max caps the wait. Defaults to 300 s.
	Max time.Duration
	// Jitter is the part of the wait, 0 to 1, that is spread at random (by the
	// event id and attempt, so it can be replayed). Defaults to 0.2; negative
	// means none.
	Jitter float64
	// Attempts is how many attempts there are in all. Defaults to 10.
	Attempts int
	// Only narrows retries to errors for which it returns true; others die at
	// once. Nil retries every error.
	Only func(error) bool
}

// Next implements RetryPolicy.
func (b Backoff) Next(eventID string, attempt int, err error) (time.Duration, bool) {
	limit := b.Attempts
	if limit <= 0 {
		limit = 10
	}
	if attempt >= limit || (b.Only != nil && err != nil && !b.Only(err)) {
		return 0, false
	}
	return b.wait(eventID, attempt), true
}

func (b Backoff) wait(eventID string, attempt int) time.Duration {
	base, hi, jitter := b.Base, b.Max, b.Jitter
	if base <= 0 {
		base = time.Second
	}
	if hi <= 0 {
		hi = 300 * time.Second
	}
	if jitter == 0 {
		jitter = 0.2
	}
	wait := float64(base) * math.Pow(2, float64(min(max(attempt, 0), 60)))
	wait = min(wait, float64(hi))
	if jitter > 0 {
		wait -= wait * min(jitter, 1) * fraction(eventID, attempt)
	}
	return time.Duration(wait)
}

// fraction spreads (id, attempt) evenly over [0,1) without a source of chance,
// so that a simulation or a test can repeat it.
func fraction(id string, attempt int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	_, _ = h.Write([]byte{byte(attempt), byte(attempt >> 8)})
	return float64(h.Sum64()>>11) / float64(1<<53)
}
