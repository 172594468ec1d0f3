package sim

import (
	"math/rand/v2"
	"time"
)

// Clock is simulated time: a heap of what is to happen, in order of time and,
// at one instant, in the order in which it was asked for.
type Clock struct {
	now  int64 // nanoseconds since epoch
	seq  uint64
	heap []happening
}

// epoch is when every simulated world begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type happening struct {
	at  int64
	seq uint64
	run func()
}

// Now is the true time of the world. Machines see it through the clock of
// their own process, which may be wrong.
func (c *Clock) Now() time.Time { return epoch.Add(time.Duration(c.now)) }

// Since is how much time has passed since the world began.
func (c *Clock) Since() time.Duration { return time.Duration(c.now) }

// After runs f when d has passed.
func (c *Clock) After(d time.Duration, f func()) {
	c.seq++
	c.heap = append(c.heap, happening{c.now + int64(max(d, 0)), c.seq, f})
	for i := len(c.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !c.less(i, up) {
			break
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
}

// Step runs what happens next and reports whether there was anything.
func (c *Clock) Step() bool {
	if len(c.heap) == 0 {
		return false
	}
	next, last := c.heap[0], len(c.heap)-1
	c.heap[0] = c.heap[last]
	c.heap[last] = happening{}
	c.heap = c.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && c.less(down+1, down) {
			down++
		}
		if !c.less(down, i) {
			break
		}
		c.heap[i], c.heap[down] = c.heap[down], c.heap[i]
		i = down
	}
	c.now = next.at
	next.run()
	return true
}

func (c *Clock) less(i, j int) bool {
	a, b := &c.heap[i], &c.heap[j]
	return a.at < b.at || (a.at == b.at && a.seq < b.seq)
}

// dice is the only source of chance in a world.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x5e771e))} }

// chance is true with probability p.
func (d dice) chance(p float64) bool { return p > 0 && d.Float64() < p }

// between returns a duration from lo to hi.
func (d dice) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.Int64N(int64(hi-lo)))
}

// from returns a number from lo to hi, both included.
func (d dice) from(lo, hi int) int { return lo + d.IntN(hi-lo+1) }
