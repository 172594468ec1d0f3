// Package settletest helps you test what you build on Settle: it runs relays
// and consumers inside a test, waits for the effects of an event, and lets a
// process kill itself at a named point, so that you see what is left behind.
package settletest

import (
	"context"
	"testing"
	"time"
)

// Runner is anything with Settle's lifecycle: a relay, a consumer.
type Runner interface {
	// Run works until ctx is done and then returns nil.
	Run(ctx context.Context) error
}

// Run starts runners and ends them, in reverse order, when the test ends or
// the returned function is called. A runner that returns an error, or does not
// end within 10 s of being asked, fails the test.
func Run(t testing.TB, runners ...Runner) (stop func()) {
	t.Helper()
	var stops []func()
	for _, r := range runners {
		stops = append(stops, start(t, r))
	}
	stop = func() {
		for i := len(stops) - 1; i >= 0; i-- {
			stops[i]()
		}
		stops = nil
	}
	t.Cleanup(stop)
	return stop
}

func start(t testing.TB, r Runner) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%T ended: %v", r, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%T did not end within 10 s of being asked", r)
		}
	}
}
