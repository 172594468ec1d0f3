package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

const (
	// maxProducers bounds the publishes that are under way; others wait.
	maxProducers = 8
	// handRecords and handBytes bound what a publish hands over at once.
	handRecords, handBytes = 10_000, 32 << 20
)

// producer is a client that sends for one publish at a time, and only when all
// was handed over. When the broker refuses records, the client fails all that
// it holds of the partition, but takes what comes next: an event handed over a
// moment later would pass those of its key that have just failed. It also keeps
// what one publish is refused for from failing another.
type producer struct {
	cl *kgo.Client
	// known are the topics of which a record was acknowledged: the client knows
	// their partitions. What it is handed before goes out while more is handed.
	known map[string]bool
	// life is the Broker's count of renewals when it was made.
	life int
}

// producer returns an idle client, or a new one.
func (b *Broker) producer(ctx context.Context) (producer, error) {
	select {
	case b.busy <- struct{}{}:
	case <-ctx.Done():
		return producer{}, &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not sent: %d other publishes are under way: %w", maxProducers, context.Cause(ctx))}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		p := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return p, nil
	}
	cl, err := kgo.NewClient(b.producing()...)
	if err != nil {
		<-b.busy
		return producer{}, err
	}
	return producer{cl, map[string]bool{}, b.lives}, nil
}

// release makes a client idle whose records were all answered.
func (b *Broker) release(p producer) {
	defer func() { <-b.busy }()
	b.mu.Lock()
	kept := p.life == b.lives
	if kept {
		b.idle = append(b.idle, p)
	}
	b.mu.Unlock()
	if !kept {
		p.cl.Close()
	}
}

// renew ends all clients when they are idle: they hold to the topics that they
// know, also to those that were made anew under their names.
func (b *Broker) renew() {
	b.mu.Lock()
	idle := b.idle
	b.idle = nil
	b.lives++
	b.mu.Unlock()
	for _, p := range idle {
		p.cl.Close()
	}
}

// producing are the options of a client that publishes. Acknowledgements of
// all replicas in sync and idempotence, with five requests in flight, are its
// defaults. Cancellation makes Publish end in time: what was in flight then may
// be held or not, and is published again.
func (b *Broker) producing() []kgo.Opt {
	return append(b.sending(), kgo.AllowIdempotentProduceCancellation())
}

// transacting are those of one that publishes in transactions.
func (b *Broker) transacting(id string) []kgo.Opt {
	return append(b.sending(), kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTime))
}

func (b *Broker) sending() []kgo.Opt {
	return append(b.connecting(),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(b.cfg.MaxRecordBytes+recordOverhead)),
		kgo.ManualFlushing(),
		kgo.ProduceRequestTimeout(b.cfg.Timeout),
		kgo.MaxBufferedRecords(handRecords),
		kgo.UnknownTopicRetries(2),
		kgo.RecordRetries(publishTries),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	)
}
