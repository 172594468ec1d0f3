package relay

import (
	"time"
)

// pacing is what keeps a destination from taking more for a while: back-off
// after the broker did not answer, the circuit of a topic that takes nothing,
// and its rate limit.
type pacing struct {
	paused bool // by a person
	// failures of the broker in a row, and until when nothing is sent. An open
	// circuit lets one batch probe when until has come.
	failures int
	until    time.Time
	open     bool
	trips    int

	rate   float64 // events per second; 0 is no limit
	tokens float64
	filled time.Time // when tokens was right
}

// backoff is lo doubled n-1 times, at most hi.
func backoff(n int, lo, hi time.Duration) time.Duration {
	return min(hi, lo<<min(max(n-1, 0), 20))
}

// brokerFailed waits before the same messages are sent again.
func (p *pacing) brokerFailed(now time.Time) {
	p.failures++
	p.until = now.Add(backoff(p.failures, 50*time.Millisecond, 5*time.Second))
}

// topicFailed opens the circuit.
func (p *pacing) topicFailed(now time.Time) {
	p.open = true
	p.trips++
	p.until = now.Add(backoff(p.trips, time.Second, 30*time.Second))
}

// answered closes the circuit: the topic took or refused a single event.
func (p *pacing) answered() {
	p.failures, p.until = 0, time.Time{}
	p.open, p.trips = false, 0
}

// burst is how many events a rate allows at once.
func burst(rate float64) float64 { return max(1, rate/10) }

func (p *pacing) refill(now time.Time) {
	if d := now.Sub(p.filled); d > 0 {
		p.tokens = min(burst(p.rate), p.tokens+d.Seconds()*p.rate)
		p.filled = now
	}
}

// allowance is how many of n events the rate lets go now; when none, at is
// when the next one may.
func (p *pacing) allowance(now time.Time, n int) (allowed int, at time.Time) {
	if p.rate <= 0 {
		return n, time.Time{}
	}
	p.refill(now)
	if p.tokens < 1 {
		wait := time.Duration((1 - p.tokens) / p.rate * float64(time.Second))
		return 0, now.Add(wait + time.Microsecond)
	}
	return min(n, int(p.tokens)), time.Time{}
}

func (p *pacing) spend(n int) {
	if p.rate > 0 {
		p.tokens -= float64(n)
	}
}

// limited reports whether the rate limit keeps d from sending now.
func (m *Machine) limited(d *destination) bool {
	n, _ := d.allowance(m.now, 1)
	return n == 0
}
