// Package rocketmq publishes to and reads from RocketMQ by its remoting protocol. A
// topic has queues on every master; a stable hash of the aggregate id chooses one of
// a list that name servers keep, whichever nodes are there. Of a queue one request
// is in flight at a time in a call of Publish, and what a broker has stored and not
// yet on the disk or a slave is no success. Queues are read by whom the group's own
// database gives them, from the position that is there: RocketMQ's consumer groups,
// their rebalancing, retry topics and positions are not used.
//
// The library for Go is not used either. It checks no certificate, makes the topics
// that it does not find, holds one lock while any connection is made, and leaves
// what is in flight on a lost connection to its time-out.
package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// connectWait is between two tries of Open.
const connectWait = 100 * time.Millisecond

// Broker is connections to name servers and brokers. Its methods may be called from
// several goroutines.
type Broker struct {
	cfg Config
	at  address
	// wire is for all but reading: a long answer would hold up short ones.
	wire, reading *remoting.Client
	routes        *routes
	nodes         *nodes
	calls         sync.WaitGroup
	// life ends with ErrClosed.
	life  context.Context
	close context.CancelCauseFunc
	// owned are goroutines that end with life.
	owned sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// declared are the topics that were made or looked at.
	declared map[string]bool
}

var _ settle.Broker = (*Broker)(nil)

// Open connects to the name servers at url, see CheckURL, and declares cfg.Topics.
// It blocks until that is done, for at most cfg.ConnectTimeout; a refusal ends it at
// once. From then on connections are restored for ever.
func Open(ctx context.Context, url string, cfg Config) (*Broker, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	if cfg.Wire == cloudevents.Envelope {
		cfg.Wire = at.wire
	}
	b := newBroker(at, cfg)
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	if err := b.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to broker: %w", err), b.Close())
	}
	b.owned.Go(func() { b.routes.keep(b.life) })
	for _, name := range b.cfg.Topics {
		if err := b.warm(ctx, name); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// newBroker is a broker without connections.
func newBroker(at address, cfg Config) *Broker {
	b := &Broker{cfg: cfg.withDefaults(), at: at, declared: map[string]bool{}}
	b.cfg.Any = b.cfg.Any || at.any
	wire := remoting.Config{Dial: b.cfg.Dial, TLS: at.tls, AccessKey: at.accessKey, SecretKey: at.secret, Timeout: b.cfg.Timeout, DialTimeout: b.cfg.Timeout}
	b.wire, b.reading = remoting.New(wire), remoting.New(wire)
	b.routes, b.nodes = newRoutes(b), &nodes{b: b, away: map[string]*absence{}}
	b.life, b.close = context.WithCancelCause(context.Background())
	return b
}

// connect waits for a name server that knows a broker, and for one that answers.
func (b *Broker) connect(ctx context.Context) error {
	for {
		err := b.connectOnce(ctx)
		if why := b.at.hopeless(err); why != "" {
			return fmt.Errorf("%s: %w", why, err)
		}
		if err == nil || !pause(ctx, connectWait) {
			return err
		}
	}
}

func (b *Broker) connectOnce(ctx context.Context) error {
	masters, err := b.masters(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, addr := range masters {
		err := b.wire.Heartbeat(ctx, addr, b.cfg.Name)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// warm declares a topic and connects to its masters, so that the first event does
// not wait for that.
func (b *Broker) warm(ctx context.Context, name string) error {
	r, err := b.declare(ctx, name)
	if err != nil {
		return err
	}
	for broker, addr := range r.masters {
		if b.nodes.why(broker) == nil {
			b.nodes.lost(ctx, broker, b.wire.Heartbeat(ctx, addr, b.cfg.Name))
		}
	}
	return nil
}

// Close implements settle.Broker. Subscriptions end with ErrClosed after the
// deliveries in flight; what was sent and not answered is waited for, at most for
// cfg.Timeout.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.close(settle.ErrClosed)
	b.calls.Wait()
	b.owned.Wait()
	b.wire.Close()
	b.reading.Close()
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
