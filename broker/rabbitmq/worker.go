package rabbitmq

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// worker delivers what comes from one queue, one call at a time. Its channel is
// its own: a delivery tag means nothing on another, and is never used there.
type worker struct {
	m  *member
	s  *session
	ch *amqp.Channel
	at place
	// cancel ends a delivery in flight.
	cancel context.CancelFunc
	// ended is closed when nothing of the worker runs any more.
	ended chan struct{}

	mu      sync.Mutex
	waiting []amqp.Delivery
	stopped bool
	// more is told when records come, or the worker is stopped.
	more chan struct{}
}

func newWorker(ctx context.Context, m *member, s *session, at place, queue string) (*worker, error) {
	w := &worker{m: m, s: s, at: at, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	var found <-chan amqp.Delivery
	var err error
	w.ch, err = s.channel(func(ch *amqp.Channel) (err error) {
		if err = ch.Qos(m.b.cfg.Prefetch, 0, false); err != nil {
			return err
		}
		found, err = ch.Consume(queue, "", false, false, false, false, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The end of the subscription stops the worker, which may end its delivery.
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		w.pump(found)
	}()
	go func() {
		defer close(w.ended)
		w.run(ctx)
		// Crash here: what was delivered and not acknowledged is delivered again.
		_ = s.within(w.ch.Close)
		<-pumped
		w.cancel()
		select {
		case m.lost <- struct{}{}:
		default:
		}
	}()
	return w, nil
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
	w.stopped = true
	w.wake()
}

func (w *worker) run(ctx context.Context) {
	p := settle.Partition{Topic: w.at.topic, Number: w.at.number}
	for {
		records, last, stopped := w.take()
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
		// Crash here: the effect is there, and the records are delivered again.
		if err := w.ch.Ack(last, true); err != nil {
			return
		}
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
