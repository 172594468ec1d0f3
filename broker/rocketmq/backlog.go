package rocketmq

import (
	"context"
	"sync"

	"github.com/settlemq/settle"
)

// backlog is what was read of a queue and not yet delivered, so that the next is
// fetched while the sink works. It is bounded by records and bytes, and holds at
// least what one answer brought.
type backlog struct {
	maxRecords, maxBytes int

	mu      sync.Mutex
	changed chan struct{}
	records []settle.Record
	bytes   int
	err     error
	// done is the position up to which the group has come.
	done int64
}

func newBacklog(maxRecords, maxBytes int, done int64) *backlog {
	return &backlog{maxRecords: maxRecords, maxBytes: maxBytes, changed: make(chan struct{}), done: done}
}

// touch wakes who waits. Its caller holds the lock.
func (l *backlog) touch() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// add appends records, or notes why no more come.
func (l *backlog) add(records []settle.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.bytes += len(r.Raw)
	}
	l.records = append(l.records, records...)
	l.err = err
	l.touch()
}

// room waits until there is some, and returns how far the group has come; ok is
// false when ctx has ended.
func (l *backlog) room(ctx context.Context) (done int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.records) >= l.maxRecords || l.bytes >= l.maxBytes {
		if !l.wait(ctx) {
			return 0, false
		}
	}
	return l.done, ctx.Err() == nil
}

// take waits for records and takes what one delivery may have of them, or returns
// why no more come.
func (l *backlog) take(ctx context.Context) ([]settle.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.records) == 0 {
		if l.err != nil {
			return nil, l.err
		}
		if !l.wait(ctx) {
			return nil, context.Cause(ctx)
		}
	}
	n, size := 0, 0
	for n < min(len(l.records), l.maxRecords) {
		if more := size + len(l.records[n].Raw); more > l.maxBytes && n > 0 {
			break
		} else {
			size = more
		}
		n++
	}
	batch := l.records[:n:n]
	l.records = l.records[n:]
	l.bytes -= size
	l.touch()
	return batch, nil
}

// delivered notes how far the group has come.
func (l *backlog) delivered(done int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = done
}

// wait gives the lock away until something changes.
func (l *backlog) wait(ctx context.Context) bool {
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}
