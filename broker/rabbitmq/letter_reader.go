package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/bridge"
)

// errLeft ends reading on a channel: a queue was deleted, or the broker has
// closed the channel.
var errLeft = errors.New("RabbitMQ has ended the reading of a queue of dead letters")

// errSilent ends reading on a channel on which nothing came from a queue for
// renewAfter: one that RabbitMQ 3 sends nothing any more looks like an idle one.
var errSilent = errors.New("nothing came")

// letterReader reads on one channel.
type letterReader struct {
	*letterSource
	s    *session
	sink bridge.Sink
	ch   *amqp.Channel
	// arrived holds all that may be in hand; lost is told when a queue, or all,
	// won't be read any more.
	arrived chan arrival
	lost    chan struct{}
	// heard is when something came from each queue.
	heard map[string]time.Time
	// held is what did not fit into the last batch.
	held *arrival
	seen twins
	// came says that letters were kept and acknowledged.
	came bool
}

// arrival is a letter as it was delivered.
type arrival struct {
	queue string
	amqp.Delivery
}

func newLetterReader(of *letterSource, s *session, sink bridge.Sink) *letterReader {
	n := len(of.g.Dead)
	return &letterReader{letterSource: of, s: s, sink: sink, heard: map[string]time.Time{}, arrived: make(chan arrival, n*letterPrefetch), lost: make(chan struct{}, n)}
}

// run reads until ctx is done, or an error. A queue that has no leader does not
// answer until it has one, or the connection ends.
func (r *letterReader) run(ctx context.Context) error {
	answer := make(chan error, 1)
	r.b.owned.Go(func() { answer <- r.attach() })
	select {
	case err := <-answer:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		r.b.owned.Go(func() {
			if err := <-answer; err == nil {
				_ = r.ch.Close()
			}
		})
		return ctx.Err()
	}
	// Crash here: what was delivered and not acknowledged is delivered again.
	defer func() { _ = r.s.within(r.ch.Close) }()
	for _, queue := range r.g.Dead {
		r.heard[queue] = time.Now()
	}
	for {
		batch, err := r.gather(ctx)
		if err == nil {
			err = r.keep(ctx, batch)
		}
		if err != nil {
			return err
		}
		r.came = true
	}
}

func (r *letterReader) attach() (err error) {
	if r.ch, err = r.s.conn.Channel(); err != nil {
		return err
	}
	if err = r.ch.Qos(letterPrefetch, 0, false); err != nil {
		_ = r.ch.Close()
		return err
	}
	for _, queue := range r.g.Dead {
		found, err := r.ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			_ = r.ch.Close()
			return fmt.Errorf("consume from queue %q: %w", queue, err)
		}
		r.b.owned.Go(func() {
			for d := range found { // at most what arrived has room for
				r.arrived <- arrival{queue, d}
			}
			r.lost <- struct{}{}
		})
	}
	return nil
}

// gather returns what is there, within the bounds of a batch, and waits for the
// first.
func (r *letterReader) gather(ctx context.Context) ([]arrival, error) {
	batch, err := r.first(ctx)
	if err != nil {
		return nil, err
	}
	for size := len(batch[0].Body); len(batch) < bridge.MaxLetters; {
		select {
		case a := <-r.arrived:
			r.heard[a.queue] = time.Now()
			if size += len(a.Body); size > bridge.MaxBytes {
				r.held = &a
				return batch, nil
			}
			batch = append(batch, a)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (r *letterReader) first(ctx context.Context) ([]arrival, error) {
	if a := r.held; a != nil {
		r.held = nil
		return []arrival{*a}, nil
	}
	var times []time.Time
	for _, heard := range r.heard {
		times = append(times, heard)
	}
	silent := time.NewTimer(time.Until(slices.MinFunc(times, time.Time.Compare).Add(renewAfter)))
	defer silent.Stop()
	select {
	case a := <-r.arrived:
		r.heard[a.queue] = time.Now()
		return []arrival{a}, nil
	case <-r.lost:
		return nil, r.ended()
	case <-silent.C:
		return nil, errSilent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *letterReader) ended() error {
	if r.s.conn.IsClosed() {
		return errLost
	}
	return errLeft
}

// keep passes a batch on until the sink has it, then acknowledges it.
func (r *letterReader) keep(ctx context.Context, batch []arrival) error {
	letters := make([]bridge.Letter, len(batch))
	for i, a := range batch {
		letters[i] = r.letter(a)
		letters[i].Identity = r.seen.name(letters[i].Identity)
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := r.sink(ctx, letters)
		if err == nil {
			break
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		if r.ch.IsClosed() { // they come again, on another one
			return r.ended()
		}
	}
	// Crash here: the letters are kept, and come again under the same identities.
	for _, a := range batch {
		if err := a.Ack(false); err != nil {
			return fmt.Errorf("acknowledge a dead letter: %w", err)
		}
	}
	return nil
}

// twins tells apart letters that are the same to the last byte, death included:
// the first is named by its bytes, the next are counted. Names are of one
// channel, on which nothing comes twice; one that comes again on the next is
// taken for the first that was kept.
type twins struct{ now, before map[string]int }

// maxTwins bounds what is remembered: twins die in the same second, and lie near
// each other.
const maxTwins = 4096

func (t *twins) name(identity string) string {
	if len(t.now) >= maxTwins || t.now == nil {
		t.now, t.before = map[string]int{}, t.now
	}
	n := max(t.now[identity], t.before[identity]) + 1
	t.now[identity] = n
	if n == 1 {
		return identity
	}
	return fmt.Sprintf("%s.%d", identity, n)
}
