package relay

import (
	"errors"
	"testing"
	"time"
)

func TestALeaseThatIsRefusedIsAskedForAtABoundedPaceAlthoughReadsAreAnswered(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	asked, end := 0, w.now.Add(time.Minute)
	for w.now.Before(end) {
		if len(w.calls) == 0 {
			w.now = laterOf(w.now, w.wake)
			w.step(Tick{})
			continue
		}
		if lead, is := w.calls[0].(Lead); is {
			asked++
			w.calls = w.calls[1:]
			w.step(Failed{Command: lead, Err: errors.New("disk is full")})
			continue
		}
		w.call()
	}
	if asked < 10 || asked > 60 {
		t.Errorf("asked %d times within a minute", asked)
	}
	w.store.add("k", "a")
	w.run(w.m.cfg.LeaseTTL / 2)
	w.wantSent(t, "e1")
}
