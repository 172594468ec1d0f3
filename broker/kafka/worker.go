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
	// read is the position behind what was read; next that behind what was
	// delivered, and epoch the leader's that wrote the record before it; written
	// is the position that was committed. They are -1 before there is one.
	read, next, written int64
	epoch               int32
}

// newWorker begins at a position that the group had committed, or at -1.
func newWorker(ctx context.Context, m *member, at place, begin int64) *worker {
	w := &worker{m: m, at: at, ended: make(chan struct{}), more: make(chan struct{}, 1), read: begin, next: -1, written: -1}
	// The end of the subscription stops the worker, which may end its delivery.
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(w.ended)
		defer w.cancel()
		w.run(ctx)
	}()
	return w
}

// add takes what was read, and has no more read while much waits.
func (w *worker) add(p kgo.FetchTopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare(p)
	w.waiting = append(w.waiting, p.Records...)
	for _, r := range p.Records {
		w.bytes += sizeOf(r)
	}
	if w.bytes > aheadBytes && !w.paused {
		w.paused = true
		w.m.cl.PauseFetchPartitions(map[string][]int32{w.at.topic: {w.at.number}})
	}
	w.wake()
}

// compare looks whether what was read goes on where the group had come to.
func (w *worker) compare(p kgo.FetchTopicPartition) {
	first, last := p.Records[0].Offset, p.Records[len(p.Records)-1].Offset
	log := w.m.b.cfg.Log.With("consumer_group", w.m.s.Group, "topic", w.at.topic, "partition", w.at.number)
	switch {
	case w.read < 0:
	case first < w.read:
		w.written = -1
		log.Warn("the partition ends before the group's position, as it does when the topic was made anew or lost records; it is read from where it can be", "position", w.read, "read_from", first)
	case p.LogStartOffset > w.read && first > w.read:
		log.Error("records were deleted before the group had read them; the topic's retention is too short, or the group was away too long", "lost", p.LogStartOffset-w.read, "position", w.read, "read_from", first)
	}
	w.read = last + 1
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
		found, stopped := w.take()
		switch {
		case stopped:
			return
		case len(found) == 0:
			select {
			case <-w.more:
			case <-ctx.Done():
				return
			}
			continue
		}
		if records := decoded(found); len(records) > 0 && !w.deliver(ctx, p, records) {
			return
		}
		w.done(found)
	}
}

// decoded leaves out the marks of transactions, which are positions only.
func decoded(found []*kgo.Record) []settle.Record {
	records := make([]settle.Record, 0, len(found))
	for _, r := range found {
		if !r.Attrs.IsControl() {
			records = append(records, record(r))
		}
	}
	return records
}

// take returns what waits, within the bounds of a delivery. It stays where it
// is until it is done.
func (w *worker) take() (found []*kgo.Record, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, size := 0, 0
	for _, r := range w.waiting {
		if size += sizeOf(r); n == w.m.s.MaxRecords || size > w.m.s.MaxBytes && n > 0 {
			break
		}
		n++
	}
	return w.waiting[:n], w.stopped
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
	defer w.mu.Unlock()
	last := found[len(found)-1]
	w.next, w.epoch = last.Offset+1, last.LeaderEpoch
	for i, r := range found {
		w.bytes -= sizeOf(r)
		found[i] = nil // what is done must not be kept by what waits
	}
	w.waiting = w.waiting[len(found):]
	if w.paused && w.bytes < aheadBytes/2 && !w.stopped {
		w.paused = false
		w.m.cl.ResumeFetchPartitions(map[string][]int32{w.at.topic: {w.at.number}})
	}
	w.m.wake()
}

// uncommitted returns the position to commit, if it has moved.
func (w *worker) uncommitted() (kgo.EpochOffset, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return kgo.EpochOffset{Epoch: w.epoch, Offset: w.next}, w.next != w.written
}

// committed takes note of a position that uncommitted gave.
func (w *worker) committed(position int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = position
}
