package drill_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle/drill"
)

func TestLoadCountsLatencyFromWhenARequestWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One server that is away for the first second and then answers each
		// request in 1 ms: whoever came in the first half second waited for it.
		began := time.Now()
		load := drill.Load{Rate: 100, For: 2 * time.Second, Place: func(context.Context, int) drill.Outcome {
			time.Sleep(max(time.Millisecond, time.Second-time.Since(began)))
			return drill.Accepted
		}}
		r, err := load.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Due != 200 || r.Accepted != 200 {
			t.Errorf("%d were due, %d accepted, want 200", r.Due, r.Accepted)
		}
		if l := r.LatencySeconds; l.Max < 0.99 || l.Max > 1.01 || l.P50 > 0.02 || l.P90 < 0.7 {
			t.Errorf("latencies are %+v; the longest wait was 1 s, half of all waited for nothing", l)
		}
	})
}

func TestLoadGoesOnAtItsRateAndSaysWhatItCouldNotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var placed atomic.Int64
		load := drill.Load{Rate: 100, For: time.Second, InFlight: 10, Timeout: 5 * time.Second, Place: func(ctx context.Context, i int) drill.Outcome {
			placed.Add(1)
			<-ctx.Done() // never answers
			return drill.Failed
		}}
		r, err := load.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed != 10 || r.Unsent != 90 || placed.Load() != 10 {
			t.Errorf("%d failed, %d unsent, %d placed; want 10, 90, 10", r.Failed, r.Unsent, placed.Load())
		}
	})
}

func TestLoadEndsWithItsContextAndReportsWhatWasOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 505*time.Millisecond)
		defer cancel()
		outcomes := []drill.Outcome{drill.Accepted, drill.Repeated, drill.Shed, drill.Refused}
		load := drill.Load{Rate: 100, For: time.Minute, Place: func(_ context.Context, i int) drill.Outcome { return outcomes[i%4] }}
		r, err := load.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.Due != 51 || r.Accepted != 13 || r.Repeated != 13 || r.Shed != 13 || r.Refused != 12 {
			t.Errorf("the report is %+v", r)
		}
	})
}

func TestALoadThatCanNotBeMeasuredIsRefused(t *testing.T) {
	for _, l := range []drill.Load{{Rate: 0, For: time.Second}, {Rate: -1, For: time.Second}, {Rate: 1, For: time.Millisecond}, {Rate: 1e9, For: time.Hour}} {
		if _, err := l.Run(t.Context()); err == nil {
			t.Errorf("rate %v for %v is no error", l.Rate, l.For)
		}
	}
}
