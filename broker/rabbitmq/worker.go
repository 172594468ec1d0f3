package rabbitmq

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// renewAfter is how long a worker waits for a record before it consumes anew: a
// channel that RabbitMQ 3 sends nothing any more looks like an idle one, see
// declarePartition, and others make queues again, too.
const renewAfter = time.Minute

// worker delivers what comes from one queue, one call at a time. Its channel is
// its own: a delivery tag means nothing on another, and is never used there.
type worker struct {
	m     *member
	s     *session
	queue string
	at    place
	ch    *amqp.Channel
	// cancel ends a delivery in flight.
	cancel context.CancelFunc
	// attached is closed when the queue is this worker's.
	attached chan struct{}
	since    time.Time
	// ended is closed when nothing of the worker runs any more; err is why, where
	// the broker said so.
	ended chan struct{}
	err   error
	// idle says that it has ended because nothing came, see renewAfter.
	idle bool

	mu      sync.Mutex
	waiting []amqp.Delivery
	stopped bool
	// more is told when records come, halt is closed when the worker is stopped.
	more, halt chan struct{}
}

// attachment is the answer of a queue.
type attachment struct {
	ch    *amqp.Channel
	found <-chan amqp.Delivery
	err   error
}

func newWorker(ctx context.Context, m *member, s *session, at place, queue string) *worker {
	w := &worker{
		m: m, s: s, queue: queue, at: at, attached: make(chan struct{}), since: time.Now(), ended: make(chan struct{}),
		more: make(chan struct{}, 1), halt: make(chan struct{}),
	}
	// The end of the subscription stops the worker, which may end its delivery.
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(w.ended)
		defer w.cancel()
		w.err = w.work(ctx)
		select {
		case m.lost <- struct{}{}:
		default:
		}
	}()
	return w
}

// work attaches to the queue, and delivers until it is stopped or the queue is
// another's.
func (w *worker) work(ctx context.Context) error {
	answer := make(chan attachment, 1)
	w.m.b.owned.Go(func() { answer <- w.attach() })
	var a attachment
	select {
	case a = <-answer:
	case <-w.halt:
		w.m.b.owned.Go(func() { // a queue without a leader does not answer; the connection's end does
			if a := <-answer; a.err == nil {
				_ = a.ch.Close()
			}
		})
		return nil
	}
	if a.err != nil {
		return fmt.Errorf("consume from queue %q: %w", w.queue, explain(a.err))
	}
	w.ch = a.ch
	close(w.attached)
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		w.pump(a.found)
	}()
	w.run(ctx)
	// Crash here: what was delivered and not acknowledged is delivered again.
	_ = w.s.within(w.ch.Close)
	<-pumped
	return nil
}

// attach blocks until the queue has a leader, or the connection ends.
func (w *worker) attach() (a attachment) {
	if a.ch, a.err = w.s.conn.Channel(); a.err != nil {
		return a
	}
	if a.err = a.ch.Qos(w.m.b.cfg.Prefetch, 0, false); a.err == nil {
		a.found, a.err = a.ch.Consume(w.queue, "", false, false, false, false, nil)
	}
	if a.err != nil {
		_ = a.ch.Close()
	}
	return a
}

// waits reports whether the queue has not answered for so long.
func (w *worker) waits(long time.Duration) bool {
	select {
	case <-w.attached:
		return false
	default:
		return time.Since(w.since) > long
	}
}

// pump takes what comes, which is at most the prefetch. When nothing can come
// any more (the queue was deleted, the channel or connection has ended) the
// partition is not this member's, and a delivery in flight is cancelled.
func (w *worker) pump(found <-chan amqp.Delivery) {
	for d := range found {
		w.mu.Lock()
		w.waiting = append(w.waiting, d)
		w.mu.Unlock()
		w.wake()
	}
	w.stop()
	w.cancel()
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
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.halt)
	w.wake()
}

func (w *worker) run(ctx context.Context) {
	p := settle.Partition{Topic: w.at.topic, Number: w.at.number}
	renew := time.NewTimer(renewAfter)
	defer renew.Stop()
	for {
		records, last, stopped := w.take()
		switch {
		case stopped:
			return
		case len(records) == 0:
			select {
			case <-w.more:
			case <-renew.C:
				w.idle = true
				return
			case <-ctx.Done():
				return
			}
			continue
		}
		if !w.deliver(ctx, p, records) {
			return
		}
		// Crash here: the effect is there, and the records are delivered again.
		if err := w.ch.Ack(last, true); err != nil {
			return
		}
		renew.Reset(renewAfter)
	}
}

// take returns what waits, within the bounds of a delivery, and the tag of the
// last one.
func (w *worker) take() (records []settle.Record, last uint64, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, 0, true
	}
	size := 0
	for _, d := range w.waiting {
		if size += len(d.Body); len(records) == w.m.s.MaxRecords || size > w.m.s.MaxBytes && len(records) > 0 {
			break
		}
		records = append(records, record(w.at, w.m.next(w.at), d))
		last = d.DeliveryTag
	}
	clear(w.waiting[:len(records)])
	w.waiting = w.waiting[len(records):]
	return records, last, false
}

// deliver passes records on until the sink takes them. It reports false when
// they will not be any more.
func (w *worker) deliver(ctx context.Context, p settle.Partition, records []settle.Record) bool {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if err := w.m.sink.Deliver(ctx, p, records); err == nil {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-w.halt:
		}
		timer.Stop()
		if w.isStopped() || ctx.Err() != nil {
			return false
		}
	}
}

func (w *worker) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}
