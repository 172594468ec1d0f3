package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// collect reads what the trial has left behind. It ends the contender: numbers
// of the server's statistics are complete only then.
func (s *stand) collect(ctx context.Context, p *process, release func(), before written, out *outcome) error {
	h := s.board.head
	published := float64(h.Published.Load())
	out.Carried = published / float64(s.expected())
	if cpu, known := s.server.cpu(ctx, s.place); known && published > 0 {
		out.ServerCPU = cpu / published * 1e6
	}
	if measured := float64(s.expected() - s.warm); !out.Stopped && measured > 0 {
		out.Rate = measured / time.Duration(h.DoneAt.Load()-h.WarmAt.Load()).Seconds()
		out.RelayCPU = time.Duration(h.DoneCPU.Load()-h.WarmCPU.Load()).Seconds() / measured * 1e6
	}
	out.Memory = float64(h.MaxRSS.Load()) / (1 << 20)
	release()
	if err := s.await(ctx, p, s.expected()+s.extra()); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	out.Lost = s.expected() + s.extra() - int(h.Published.Load())
	out.Twice = s.board.twice()
	if err := p.stop(); err != nil {
		return err
	}
	if err := s.sessionsEnd(ctx); err != nil {
		return err
	}
	after, err := s.server.written(ctx, s.place, s.contender.layout.table)
	if w := after.since(before); err == nil && published > 0 {
		out.Log, out.OldEvents, out.Old = w.log/published, w.events/published, w.all/published
	}
	return err
}

// sessionsEnd waits until the contender's sessions have ended: then their
// statistics are there.
func (s *stand) sessionsEnd(ctx context.Context) error {
	for {
		left, err := s.server.sessions(ctx, s.place)
		if err != nil || left == 0 {
			return err
		}
		pause(ctx, time.Millisecond)
	}
}

// latencies fills in the percentiles of what was published after the warm-up.
// Those that were seen before the producer knew of its own commit count as 0.
func (s *stand) latencies(committed []int64, out *outcome) {
	ms := make([]float64, 0, len(committed)-s.warm)
	for n := s.warm; n < len(committed); n++ {
		if at := s.board.times[n].Load(); at > 0 {
			ms = append(ms, max(0, float64(at-committed[n])/1e6))
		}
	}
	if len(ms) == 0 {
		return
	}
	slices.Sort(ms)
	out.P50, out.P99, out.P999 = quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 0.999)
}

// quantile of what is sorted.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// medianRatio compares what was measured in turn: the median of the ratios of
// those that stood beside each other. 0 where nothing did.
func medianRatio(of, to []float64) float64 {
	var v []float64
	for i := range min(len(of), len(to)) {
		if to[i] > 0 {
			v = append(v, of[i]/to[i])
		}
	}
	return median(v)
}
