package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// aheadBytes is how much of a partition waits for its sink before the partition
// is not read any more.
const aheadBytes = 4 << 20

// worker delivers the records of one partition, one call at a time.
type worker struct {
	m  *member
	at place
	// cancel ends a delivery in flight.
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting []*kgo.Record
	bytes   int
	paused  bool
	stopped bool
	// more is told when records come, or the worker is stopped.
	more chan struct{}
	// next is the position behind what was delivered, epoch the leader's that
	// wrote the record before it; written is the position that was committed.
	next, written int64
	epoch         int32
}

func newWorker(ctx context.Context, m *member, at place) *worker {
	w := &worker{m: m, at: at, ended: make(chan struct{}), more: make(chan struct{}, 1), next: -1, written: -1}
	// The end of the subscription stops the worker, which may end its delivery.
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(w.ended)
		defer w.cancel()
		w.run(ctx)
	}()
	return w
}

// add takes records, and has no more read while many wait.
func (w *worker) add(records []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, records...)
	for _, r := range records {
		w.bytes += len(r.Value)
	}
	if w.bytes > aheadBytes && !w.paused {
		w.paused = true
		w.m.cl.PauseFetchPartitions(map[string][]int32{w.at.topic: {w.at.number}})
	}
	w.wake()
}

func (w *worker) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *worker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.wake()
}

func (w *worker) run(ctx context.Context) {
	p := settle.Partition{Topic: w.at.topic, Number: int(w.at.number)}
	for {
		found, records, stopped := w.take()
		switch {
		case stopped:
			return
		case len(records) == 0:
			select {
			case <-w.more:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !w.deliver(ctx, p, records) {
			return
		}
		w.done(found)
	}
}

// take returns what waits, within the bounds of a delivery. It stays where it
// is until it is done.
func (w *worker) take() (found []*kgo.Record, records []settle.Record, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for _, r := range w.waiting {
		if size += len(r.Value); len(records) == w.m.s.MaxRecords || size > w.m.s.MaxBytes && len(records) > 0 {
			break
		}
		records = append(records, record(r))
	}
	return w.waiting[:len(records)], records, w.stopped
}

// deliver passes records on until the sink takes them. It reports false when
// they will not be any more.
func (w *worker) deliver(ctx context.Context, p settle.Partition, records []settle.Record) bool {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := w.m.sink.Deliver(ctx, p, records)
		if err == nil {
			return true
		}
		timer := time.NewTimer(wait)
		for again := false; !again; {
			w.mu.Lock()
			stopped := w.stopped
			w.mu.Unlock()
			if stopped || ctx.Err() != nil {
				timer.Stop()
				return false
			}
			select {
			case <-timer.C:
				again = true
			case <-ctx.Done():
			case <-w.more: // records that come are for later
			}
		}
	}
}

// done removes what was delivered, and has the partition read again when little
// waits.
func (w *worker) done(found []*kgo.Record) {
	w.mu.Lock()
	last := found[len(found)-1]
	w.next, w.epoch = last.Offset+1, last.LeaderEpoch
	for _, r := range found {
		w.bytes -= len(r.Value)
	}
	w.waiting = w.waiting[len(found):]
	resume := w.paused && w.bytes < aheadBytes/2 && !w.stopped
	if resume {
		w.paused = false
	}
	w.mu.Unlock()
	if resume {
		w.m.cl.ResumeFetchPartitions(map[string][]int32{w.at.topic: {w.at.number}})
	}
	w.m.wake()
}

// uncommitted returns the position to commit, if it has moved.
func (w *worker) uncommitted() (kgo.EpochOffset, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return kgo.EpochOffset{Epoch: w.epoch, Offset: w.next}, w.next > w.written
}

func (w *worker) committed(position int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = max(w.written, position)
}
