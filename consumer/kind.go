package consumer

import "time"

// kind is an event type that the group handles, or the compensation of one.
type kind struct {
	name string
	rule HandlerRule
	gate gate
	// compensation is nil when there is none.
	compensation *kind
	// each is how long the handler takes for one event, smoothed.
	each time.Duration
	// rows bounds a batch handler's call; it is halved while calls fail.
	rows int
}

// observe takes the time that calls of the handler took.
func (k *kind) observe(t HandlerTime) {
	if t.Calls <= 0 {
		return
	}
	sample := t.Took / time.Duration(t.Calls)
	if k.each == 0 {
		k.each = sample
		return
	}
	k.each += (sample - k.each) * 3 / 10
}

// gate is the circuit breaker of an event type. It is closed while wait is 0;
// otherwise nothing of the type is handled before until, then one event at a
// time, until one succeeds.
type gate struct {
	wait  time.Duration
	until time.Time
	// failures counts what was Unavailable or timed out in a row.
	failures int
	// keys are the different keys whose first attempts failed in a row.
	keys []string
	// broken is true when it was opened because of keys: an ordinary failure
	// of a probe then keeps it open.
	broken bool
	// open is true when people were told so.
	open bool
	// probing is true while a probe is in flight.
	probing bool
}

// held reports whether nothing of the type may be handled at now.
func (g *gate) held(now time.Time) bool { return g.probing || now.Before(g.until) }

// half reports whether the next event is a probe.
func (g *gate) half() bool { return g.wait > 0 }

// hold begins a wait, twice as long as the one that has ended. What was in
// flight when a wait began, and fails in it, says nothing new.
func (g *gate) hold(now time.Time, b Breaker) {
	switch {
	case g.wait == 0:
		g.wait = b.Wait
	case now.Before(g.until):
		return
	default:
		g.wait = min(2*g.wait, b.MaxWait)
	}
	g.until = now.Add(g.wait)
}

// unavailable notes that the handler could not work at all. It returns true
// when that opens the breaker.
func (g *gate) unavailable(now time.Time, b Breaker) bool {
	g.failures++
	g.hold(now, b)
	return g.opens(g.failures >= b.Failures)
}

// timedOut notes an attempt that exceeded its time.
func (g *gate) timedOut(now time.Time, b Breaker) bool {
	g.failures++
	if g.failures >= b.Failures || g.half() {
		g.hold(now, b)
	}
	return g.opens(g.failures >= b.Failures)
}

// failed notes an ordinary failure; first is true for a first attempt.
func (g *gate) failed(now time.Time, b Breaker, key string, first bool) (opened, closed bool) {
	if g.half() && !g.broken { // it answers again, if only to say no
		closed = g.open
		g.close()
	}
	g.failures = 0
	if b.DistinctKeys < 0 {
		return false, closed
	}
	if g.broken {
		g.hold(now, b)
		return false, closed
	}
	if !first {
		return false, closed
	}
	for _, k := range g.keys {
		if k == key {
			return false, closed
		}
	}
	g.keys = append(g.keys, key)
	if len(g.keys) < b.DistinctKeys {
		return false, closed
	}
	g.broken = true
	g.hold(now, b)
	return g.opens(true), closed
}

func (g *gate) opens(yes bool) bool {
	if !yes || g.open {
		return false
	}
	g.open = true
	return true
}

// close notes that an event was handled.
func (g *gate) close() {
	*g = gate{keys: g.keys[:0]}
}

// quiet reports whether a success would change nothing.
func (g *gate) quiet() bool { return g.wait == 0 && g.failures == 0 && len(g.keys) == 0 }
