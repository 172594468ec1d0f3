// Package rabbitmq publishes to and reads from RabbitMQ. A topic is a durable
// exchange, a partition one of the quorum queues that a consumer group has of
// its own, with a single active consumer; a consistent hash of the aggregate id
// chooses the queue. Events are persistent and mandatory, are confirmed, and
// are acknowledged by hand after they have taken effect. RabbitMQ knows no
// positions and no ids of messages, and keeps events only for the groups whose
// queues are there when they come.
package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

const (
	// maxChannels of a connection: one for each partition, and for each topic of
	// a call of Publish.
	maxChannels = 2047
	// frameBytes bounds a frame; a body is cut into several, headers are not.
	frameBytes = 128 << 10
)

// Broker is a connection for publishing and one for consuming. Its methods may
// be called from several goroutines.
type Broker struct {
	cfg Config
	at  address
	// publishing is up from the beginning, consuming from the first Subscribe.
	publishing, consuming *link
	calls                 sync.WaitGroup
	// life ends with ErrClosed.
	life  context.Context
	close context.CancelCauseFunc
	// links ends after all calls have.
	links    context.Context
	cutLinks context.CancelFunc
	// owned are goroutines that end with the links.
	owned sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// reads is set when the consuming link is kept.
	reads bool
	// declared are the topics that were made or looked at.
	declared map[string]bool
	// idle are lines that wait for their next use.
	idle []*line
	// owners are the partitions that members of this process have.
	owners map[string]bool
}

var _ settle.Broker = (*Broker)(nil)

// newBroker is a broker without connections.
func newBroker(at address, cfg Config) *Broker {
	return &Broker{cfg: cfg.withDefaults(), at: at, declared: map[string]bool{}, owners: map[string]bool{}}
}

// Open connects to the broker at url, see CheckURL, and declares cfg.Topics
// with the queues of cfg.Groups. It blocks until that is done, for at most
// cfg.ConnectTimeout; a refusal ends it at once. From then on connections are
// restored for ever.
func Open(ctx context.Context, url string, cfg Config) (*Broker, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if cfg.Wire == cloudevents.Envelope {
		cfg.Wire = at.wire
	}
	b := newBroker(at, cfg)
	b.publishing, b.consuming = newLink(b, "publishing"), newLink(b, "consuming")
	b.life, b.close = context.WithCancelCause(context.Background())
	b.links, b.cutLinks = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	s, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.declareAll(ctx, s); err != nil {
		_ = s.conn.CloseDeadline(time.Now().Add(b.cfg.Timeout))
		_ = s.wire.Close()
		return nil, err
	}
	b.owned.Go(func() { b.publishing.keep(b.links, s) })
	return b, nil
}

func (b *Broker) connect(ctx context.Context) (*session, error) {
	var last error
	for {
		s, err := b.publishing.connect(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		var refused *refusedError
		if errors.As(err, &refused) || !pause(ctx, 2*firstWait) {
			return nil, last
		}
	}
}

// read keeps the consuming link up from its first use.
func (b *Broker) read() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reads {
		return
	}
	b.reads = true
	b.owned.Go(func() { b.consuming.keep(b.links, nil) })
}

// Close implements settle.Broker. Subscriptions end with ErrClosed after the
// deliveries in flight; what was published and not confirmed is waited for, at
// most for cfg.Timeout.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.close(settle.ErrClosed)
	b.calls.Wait()
	b.cutLinks()
	b.owned.Wait()
	return nil
}

// begin counts a call that Close has to wait for.
func (b *Broker) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return settle.ErrClosed
	}
	b.calls.Add(1)
	return nil
}

// living returns a context that ends with ctx, or with ErrClosed.
func (b *Broker) living(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.life, func() { cancel(settle.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
