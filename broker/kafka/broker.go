// Package kafka publishes to and reads from Apache Kafka. The key of a record
// is the event's aggregate id, hashed as Java's clients hash it; positions are
// offsets. Publishing is idempotent, waits for all replicas in sync, and ends
// in the time that it is given. Partitions are the group coordinator's to
// assign, and a position is committed when what stands before it has taken
// effect.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

const (
	// retryWait is short because a leader that has moved is found by asking again.
	retryWait = 200 * time.Millisecond
	// metadataWait is how soon the cluster may be asked again where leaders are.
	metadataWait = 250 * time.Millisecond
	// maxBuffered bounds the records that wait to be sent; publishing blocks there.
	maxBuffered, maxBufferedBytes = 20_000, 64 << 20
)

// Broker is a connection to a cluster. Its methods may be called from several
// goroutines.
type Broker struct {
	cfg   Config
	at    address
	cl    *kgo.Client
	admin *kadm.Client
	calls sync.WaitGroup
	// life ends with ErrClosed.
	life  context.Context
	close context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
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
	b := &Broker{cfg: cfg, at: at, declared: map[string]bool{}}
	b.life, b.close = context.WithCancelCause(context.Background())
	if b.cl, err = kgo.NewClient(b.producing()...); err != nil {
		return nil, err
	}
	b.admin = kadm.NewClient(b.cl)
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	if err := b.connect(ctx); err != nil {
		b.cl.Close()
		return nil, fmt.Errorf("connect to Kafka at %s: %w", at.hosts[0], err)
	}
	for _, name := range cfg.Topics {
		if err := b.declare(ctx, name, true); err != nil {
			b.cl.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *Broker) connect(ctx context.Context) error {
	for {
		err := b.cl.Ping(ctx)
		if err == nil || errors.Is(err, kerr.SaslAuthenticationFailed) || !pause(ctx, retryWait) {
			return err
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
		kgo.MetadataMinAge(metadataWait),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryWait }),
		kgo.RequestTimeoutOverhead(b.cfg.Timeout),
	}
	if b.at.sasl != nil {
		o = append(o, kgo.SASL(b.at.sasl))
	}
	switch {
	case b.cfg.Dial != nil:
		o = append(o, kgo.Dialer(b.cfg.Dial))
	case b.at.tls != nil:
		o = append(o, kgo.DialTLSConfig(b.at.tls))
	}
	return o
}

// producing are the options of the client that publishes. Acknowledgements of
// all replicas in sync and idempotence, with five requests in flight, are its
// defaults. Cancellation makes Publish end in time: what was in flight then may
// be held or not, and is published again.
func (b *Broker) producing() []kgo.Opt {
	return append(b.connecting(),
		kgo.AllowIdempotentProduceCancellation(),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(b.cfg.MaxRecordBytes+recordOverhead)),
		kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(b.cfg.Timeout),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.UnknownTopicRetries(2),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	)
}

// Close implements settle.Broker. Subscriptions end with ErrClosed after the
// deliveries in flight; publishes in flight are waited for, at most until
// their time-out.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.close(settle.ErrClosed)
	b.calls.Wait()
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
