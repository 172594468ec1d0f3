package main

import (
	"errors"
	"sync/atomic"
	"time"
)

// meter counts the events of a way's turn, and notes when those of the warm-up
// and when all were there. What comes behind them is not counted.
type meter struct {
	events, warm, keys int
	counted            atomic.Int64
	seen               []atomic.Bool
	// last is the number of the last event of each key, and one more.
	last []atomic.Int64
	// twice counts events that came again, disorder those that came behind a
	// later one of their key.
	twice, disorder  atomic.Int64
	warmAt, doneAt   atomic.Int64
	warmCPU, doneCPU atomic.Int64
	// done is closed when all were there.
	done chan struct{}
}

// newMeter counts so many events of those that there are.
func newMeter(events, of, warm, keys int) *meter {
	return &meter{events: events, warm: warm, keys: keys, seen: make([]atomic.Bool, max(events, of)), last: make([]atomic.Int64, keys), done: make(chan struct{})}
}

// count takes the event with this id. It may be called from several goroutines.
func (m *meter) count(id string) error {
	n, err := eventNumber(id)
	if err != nil {
		return err
	}
	if n >= len(m.seen) {
		return errors.New("an event that nobody has sent")
	}
	if m.seen[n].Swap(true) {
		m.twice.Add(1)
		return nil
	}
	if m.last[n%m.keys].Swap(int64(n)+1) > int64(n)+1 {
		m.disorder.Add(1)
	}
	// CPU before time at the beginning, and behind it at the end, would favour
	// nobody: reading both takes a microsecond.
	switch m.counted.Add(1) {
	case int64(m.warm):
		m.warmCPU.Store(cpuTime())
		m.warmAt.Store(time.Now().UnixNano())
	case int64(m.events):
		m.doneAt.Store(time.Now().UnixNano())
		m.doneCPU.Store(cpuTime())
		close(m.done)
	}
	return nil
}

// passage is what a way's turn has shown.
type passage struct {
	// Rate is events per second, CPU seconds of the process per million events,
	// both after the warm-up.
	Rate float64 `json:"rate"`
	CPU  float64 `json:"cpu"`
	// Twice and Disorder are events that came again, or behind a later one.
	Twice    int `json:"twice"`
	Disorder int `json:"disorder"`
}

func (m *meter) passage() (passage, error) {
	select {
	case <-m.done:
	default:
		return passage{}, errors.New("it ended before all events were there")
	}
	measured := float64(m.events - m.warm)
	return passage{
		Rate:  measured / time.Duration(m.doneAt.Load()-m.warmAt.Load()).Seconds(),
		CPU:   time.Duration(m.doneCPU.Load()-m.warmCPU.Load()).Seconds() / measured * 1e6,
		Twice: int(m.twice.Load()), Disorder: int(m.disorder.Load()),
	}, nil
}

// unless is an error of a way that has ended: none when all events were there,
// which ends its context.
func (m *meter) unless(err error) error {
	select {
	case <-m.done:
		return nil
	default:
		return err
	}
}
