// Package kafka publishes to and reads from Apache Kafka. The key of a record
// is the event's aggregate id, hashed as Java's clients hash it; positions are
// offsets. Publishing is idempotent, waits for all replicas in sync, and ends
// in the time that it is given. Partitions are the group coordinator's to
// assign, and a position is committed when what stands before it has taken
// effect.
package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

const (
	// retryWait is short because a leader that has moved is found by asking again.
	retryWait = 200 * time.Millisecond
	// metadataWait is how soon the cluster may be asked again where leaders are.
	metadataWait = 250 * time.Millisecond
	// publishTries is how often what a broker answered to be its trouble of the
	// moment is sent again, within some seconds, before its word is passed on.
	publishTries = 10
)

// Broker is a connection to a cluster. Its methods may be called from several
// goroutines.
type Broker struct {
	cfg   Config
	at    address
	cl    *kgo.Client
	admin *kadm.Client
	calls sync.WaitGroup
	link  *link
	// life ends with ErrClosed, and end when publishes were waited for.
	life, end context.Context
	close     context.CancelCauseFunc
	cut       context.CancelFunc

	// busy has an entry for each producer in use.
	busy chan struct{}

	mu     sync.Mutex
	closed bool
	// idle are the producers of this life, of which there were so many.
	idle  []producer
	lives int
	// fences are those of what relays lead.
	fences map[led]*fence
	// declared are the topics that were made or looked at.
	declared map[string]bool
}

var _ settle.Broker = (*Broker)(nil)

// Open connects to the cluster at url, see CheckURL, and declares cfg.Topics.
// It blocks until that is done, for at most cfg.ConnectTimeout. From then on
// connections are restored for ever.
func Open(ctx context.Context, url string, cfg Config) (*Broker, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.Fence = cfg.Fence || at.fence
	if cfg.Wire == cloudevents.Envelope {
		cfg.Wire = at.wire
	}
	b := &Broker{cfg: cfg, at: at, link: newLink(cfg.Log), busy: make(chan struct{}, maxProducers), fences: map[led]*fence{}, declared: map[string]bool{}}
	b.life, b.close = context.WithCancelCause(context.Background())
	b.end, b.cut = context.WithCancel(context.Background())
	if b.cl, err = kgo.NewClient(b.connecting()...); err != nil {
		return nil, err
	}
	b.admin = kadm.NewClient(b.cl)
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	if err := b.connect(ctx); err != nil {
		b.cl.Close()
		return nil, fmt.Errorf("connect to Kafka at %s: %w", strings.Join(at.hosts, ","), err)
	}
	b.link.tell()
	for _, name := range cfg.Topics {
		if err := b.declare(ctx, name, true); err != nil {
			b.cl.Close()
			return nil, err
		}
	}
	return b, nil
}

// connect asks until the cluster answers, or says what waiting will not mend.
func (b *Broker) connect(ctx context.Context) error {
	var said error
	for {
		err := b.cl.Ping(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || said == nil {
			said = err
		}
		if hopeless(said) || !pause(ctx, retryWait) {
			return explain(said)
		}
	}
}

// connecting is what all clients have in common. Requests fail in bounded
// time: by default a leader that hangs holds its partitions up for 20 s.
func (b *Broker) connecting() []kgo.Opt {
	o := []kgo.Opt{
		kgo.SeedBrokers(b.at.hosts...),
		kgo.ClientID(b.cfg.Name),
		kgo.WithLogger(logger{b.cfg.Log}),
		kgo.WithHooks(b.link),
		kgo.MetadataMinAge(metadataWait),
		kgo.MetadataMaxAge(b.cfg.RefreshEvery),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryWait }),
		kgo.RequestTimeoutOverhead(b.cfg.Timeout),
	}
	if b.at.sasl != nil {
		o = append(o, kgo.SASL(b.at.sasl))
	}
	switch {
	case b.cfg.Dial != nil:
		o = append(o, kgo.Dialer(b.dialOwn))
	case b.at.tls != nil:
		o = append(o, kgo.DialTLSConfig(b.at.tls), kgo.DialTimeout(b.cfg.Timeout))
	default:
		o = append(o, kgo.DialTimeout(b.cfg.Timeout))
	}
	return o
}

// Close implements settle.Broker. Subscriptions end with ErrClosed after the
// deliveries in flight; publishes in flight are waited for, at most twice the
// time of a request.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.close(settle.ErrClosed)
	patience := time.AfterFunc(2*b.cfg.Timeout, b.cut)
	defer patience.Stop()
	b.calls.Wait()
	b.cut()
	b.renew()
	b.endFences()
	b.cl.Close()
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

// pause waits for d and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
