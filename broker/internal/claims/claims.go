// Package claims keeps one reader running for each partition that a member of
// a consumer group owns by lease. Brokers that do not assign partitions
// themselves read through it.
package claims

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Read reads one claimed partition until ctx ends. It returns ErrFenced when
// the sink says so (the claim is asked for again), ErrNewGeneration when the
// whole subscription has to stop, and nil after ctx has ended.
type Read func(ctx context.Context, claim settle.Claim) error

// Loop claims the partitions of one topic and runs their readers.
type Loop struct {
	Ownership settle.Ownership
	Topic     string
	// Partitions is how many the topic has.
	Partitions int
	Read       Read
	// Every is the time between claims. Defaults to a third of the lease, at
	// most 500 ms.
	Every time.Duration
	Log   *slog.Logger
}

const (
	minWait    = 10 * time.Millisecond
	maxWait    = 2 * time.Second
	fencedWait = 50 * time.Millisecond
	// forever stands for a claim that does not expire.
	forever = 100 * 365 * 24 * time.Hour
	// callTimeout bounds a claim: it has to answer within a lease to be of use.
	callTimeout = 5 * time.Second
)

// running is a reader of one partition.
type running struct {
	claim  settle.Claim
	cancel context.CancelFunc
	// expiry cancels the reader shortly before the lease ends.
	expiry *time.Timer
	done   chan struct{}
	err    error
}

// Run claims and reads until ctx is done, or a reader ends with
// ErrNewGeneration, then waits for all readers. It returns nil in the first
// case.
func (l Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	readers := make(map[int]*running, l.Partitions)
	var all sync.WaitGroup
	defer func() {
		cancel()
		all.Wait()
	}()
	ended := make(chan struct{}, 1)
	wait, failures := time.Duration(0), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			// A reader that is fenced at once must not make this loop spin.
			wait = min(wait, fencedWait)
			continue
		case <-time.After(wait):
		}
		if err := l.reap(readers); err != nil {
			return err
		}
		began := time.Now()
		owned, err := l.claim(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, settle.ErrNewGeneration):
			return err
		case err != nil:
			failures++
			wait = min(minWait<<min(failures, 10), maxWait)
			l.Log.Warn("claim partitions", "topic", l.Topic, "error", err)
			continue
		}
		failures = 0
		l.match(ctx, readers, owned, began, &all, ended)
		wait = l.next(owned, began)
	}
}

func (l Loop) claim(ctx context.Context) ([]settle.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.Ownership.Claim(ctx, l.Topic, l.Partitions)
}

// reap forgets the readers that have ended. A fenced one is claimed again.
func (l Loop) reap(readers map[int]*running) error {
	for n, r := range readers {
		select {
		case <-r.done:
			r.expiry.Stop()
			r.cancel()
			delete(readers, n)
			if errors.Is(r.err, settle.ErrNewGeneration) {
				return r.err
			}
		default:
		}
	}
	return nil
}

// match starts and stops readers so that they match what is owned. A lost
// partition's reader is told to stop and not waited for; should the partition
// come back, its new reader starts after the old one has ended.
func (l Loop) match(ctx context.Context, readers map[int]*running, owned []settle.Claim, at time.Time, all *sync.WaitGroup, ended chan struct{}) {
	kept := make(map[int]bool, len(owned))
	for _, c := range owned {
		n := c.Partition.Number
		kept[n] = true
		switch r := readers[n]; {
		case r == nil:
			readers[n] = l.start(ctx, c, at, all, ended)
		case r.claim.Partition.Epoch != c.Partition.Epoch || r.claim.Partition.Owner != c.Partition.Owner:
			r.cancel()
		default:
			r.expiry.Reset(untilEnd(c, at))
		}
	}
	for n, r := range readers {
		if !kept[n] {
			r.cancel()
		}
	}
}

func (l Loop) start(ctx context.Context, c settle.Claim, at time.Time, all *sync.WaitGroup, ended chan struct{}) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{claim: c, cancel: cancel, done: make(chan struct{})}
	r.expiry = time.AfterFunc(untilEnd(c, at), cancel)
	all.Go(func() {
		defer cancel()
		r.err = l.Read(ctx, c)
		close(r.done)
		select {
		case ended <- struct{}{}:
		default:
		}
	})
	return r
}

// untilEnd is how long a reader may go on: an eighth of the lease is left for
// the call in flight to notice.
func untilEnd(c settle.Claim, at time.Time) time.Duration {
	if c.Expires.IsZero() {
		return forever
	}
	lease := c.Expires.Sub(at)
	return lease - lease/8 - time.Since(at)
}

func (l Loop) next(owned []settle.Claim, at time.Time) time.Duration {
	if l.Every > 0 {
		return l.Every
	}
	wait := maxWait / 4
	for _, c := range owned {
		if !c.Expires.IsZero() {
			wait = min(wait, c.Expires.Sub(at)/3)
		}
	}
	return max(wait, minWait)
}
