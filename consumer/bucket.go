package consumer

import "time"

// bucket is a token bucket: one token for each event handled.
type bucket struct {
	rate, burst, tokens float64
	at                  time.Time
	// wanted is true when an event had to wait for a token.
	wanted bool
}

func newBucket(rate float64, burst int) bucket {
	return bucket{rate: rate, burst: float64(burst), tokens: float64(burst)}
}

func (b *bucket) refill(now time.Time) {
	if b.rate <= 0 {
		return
	}
	if !b.at.IsZero() && now.After(b.at) {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
}

// take takes one token if there is one.
func (b *bucket) take() bool {
	if b.rate <= 0 {
		return true
	}
	if b.tokens < 1 {
		b.wanted = true
		return false
	}
	b.tokens--
	return true
}

// ready returns when it is worth asking again: tokens for 20 ms have gathered,
// so that a limit does not make one transaction of each event.
func (b *bucket) ready(now time.Time) time.Time {
	need := max(1, min(b.burst, b.rate/50)) - b.tokens
	return now.Add(max(time.Millisecond, time.Duration(need/b.rate*float64(time.Second))))
}
