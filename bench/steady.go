package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// storing are the connections that store events at a steady rate.
const storing = 16

// steady stores events one a transaction, each at its own time whatever became
// of those before (open loop), while the contender runs.
func (s *stand) steady(ctx context.Context, p *process, out *outcome) error {
	committed := make([]int64, s.events)
	if err := s.begin(ctx, p); err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, storing)
	began := time.Now()
	for i := range storing {
		group.Go(func() { errs[i] = s.produce(ctx, i, began, committed) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err := s.await(ctx, p, s.expected())
	if err == nil || errors.Is(err, errStopped) {
		s.latencies(committed, out)
	}
	return err
}

// begin waits until the contender is at work.
func (s *stand) begin(ctx context.Context, p *process) error {
	for s.board.head.Ready.Load() == 0 {
		if err := errors.Join(p.failed(), ctx.Err()); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	pause(ctx, 300*time.Millisecond) // connecting is no part of a steady state
	return nil
}

func (s *stand) produce(ctx context.Context, first int, began time.Time, committed []int64) error {
	conn, err := s.place.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for n := first; n < s.events; n += storing {
		pause(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(s.rate))))
		if _, err := s.place.insist(ctx, func() error {
			_, err := conn.ExecContext(ctx, s.contender.layout.insert, eventID(n), eventKey(n, s.keys), string(payload(n)))
			return err
		}); err != nil {
			return err
		}
		committed[n] = time.Now().UnixNano()
	}
	return nil
}
