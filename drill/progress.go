package drill

import (
	"context"
	"time"
)

// PhaseFeeding is the phase in which orders flow and faults are injected.
const PhaseFeeding = "feeding"

// Progress is how far a run is.
type Progress struct {
	Phase          string
	Orders, Placed int
	Settled        int64
	Shots, Fired   int
	Elapsed        time.Duration
}

// watch shows the progress until ctx is done.
func (r *run) watch(ctx context.Context) {
	if r.cfg.Show == nil {
		return
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		phase := r.phase
		r.mu.Unlock()
		if phase == PhaseFeeding { // the other phases look for themselves
			_, _ = r.look(ctx)
		}
		r.cfg.Show(r.progress())
	}
}

func (r *run) progress() Progress {
	placed, _ := r.feed.Placed()
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Phase: r.phase, Orders: len(r.cfg.Requests), Placed: placed, Settled: r.state.Completed + r.state.Cancelled,
		Shots: len(r.shots), Fired: r.fired, Elapsed: time.Since(r.began),
	}
}
