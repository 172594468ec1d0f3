package consumer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// fakeBroker is a settle.Subscriber over logs in memory. With leased, it takes
// partitions and positions from the subscription's Ownership.
type fakeBroker struct {
	leased bool
	err    error // returned by Subscribe at once

	mu      sync.Mutex
	logs    [][]settle.Record
	grown   chan struct{}
	refused []error // results of Deliver that were not nil
}

func newFakeBroker(parts int) *fakeBroker {
	return &fakeBroker{logs: make([][]settle.Record, parts), grown: make(chan struct{})}
}

func (b *fakeBroker) publish(p int, events ...*settle.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		b.logs[p] = append(b.logs[p], records(int64(len(b.logs[p])+1), e)...)
	}
	close(b.grown)
	b.grown = make(chan struct{})
}

func (b *fakeBroker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	if b.err != nil {
		return b.err
	}
	parts := make([]settle.Partition, len(b.logs))
	from := make([]int64, len(b.logs))
	for p := range parts {
		parts[p] = settle.Partition{Topic: s.Topics[0], Number: p}
	}
	if b.leased {
		claims, err := s.Ownership.Claim(ctx, s.Topics[0], len(b.logs))
		if err != nil {
			return err
		}
		for _, c := range claims {
			parts[c.Partition.Number], from[c.Partition.Number] = c.Partition, c.Floor.Position
		}
	}
	var all sync.WaitGroup
	for p := range parts {
		all.Go(func() { b.feed(ctx, s, sink, parts[p], from[p]) })
	}
	all.Wait()
	return nil
}

func (b *fakeBroker) feed(ctx context.Context, s settle.Subscription, sink settle.Sink, p settle.Partition, done int64) {
	for ctx.Err() == nil {
		b.mu.Lock()
		log, grown := b.logs[p.Number], b.grown
		b.mu.Unlock()
		if int(done) == len(log) {
			select {
			case <-grown:
			case <-ctx.Done():
			}
			continue
		}
		batch := slices.Clone(log[done:min(len(log), int(done)+s.MaxRecords)])
		if err := sink.Deliver(ctx, p, batch); err != nil {
			b.mu.Lock()
			b.refused = append(b.refused, err)
			b.mu.Unlock()
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		done += int64(len(batch))
	}
}
