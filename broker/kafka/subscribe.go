package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

const (
	// fetchBytes bounds what is read ahead in all, and partitionBytes of one
	// partition by a single request.
	fetchBytes, partitionBytes = 16 << 20, 1 << 20
	// defaultRecords and defaultBytes bound a delivery.
	defaultRecords, defaultBytes = 256, 1 << 20
)

// Subscribe implements settle.Subscriber. Members share the partitions by the
// cooperative protocol: of a change only the partitions that move feel
// anything. More members than partitions are idle.
func (b *Broker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	switch {
	case s.Group == "":
		return errors.New("subscribe: the group has no name")
	case len(s.Topics) == 0:
		return errors.New("subscribe: there is no topic")
	}
	for _, name := range s.Topics {
		if why := badTopic(name); why != "" {
			return fmt.Errorf("subscribe to %q: %s", name, why)
		}
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	if s.MaxRecords <= 0 {
		s.MaxRecords = defaultRecords
	}
	if s.MaxBytes <= 0 {
		s.MaxBytes = defaultBytes
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(settle.ErrClosed) })()
	if err := b.member(ctx, s, sink); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), settle.ErrClosed) {
		return settle.ErrClosed
	}
	return nil
}

// member is one membership, until ctx is done.
func (b *Broker) member(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	m := &member{b: b, s: s, sink: sink, workers: map[place]*worker{}, begins: map[place]int64{}, moved: make(chan struct{}, 1)}
	cl, err := kgo.NewClient(append(b.connecting(), m.consuming()...)...)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	m.cl = cl
	commits := make(chan struct{})
	go func() {
		defer close(commits)
		m.commitAll(ctx)
	}()
	m.poll(ctx)
	m.end(m.all(), b.cfg.DrainTimeout)
	<-commits
	// Crash here: what was delivered and not committed is delivered again.
	m.commit(context.WithoutCancel(ctx))
	cl.CloseAllowingRebalance()
	return nil
}

func (m *member) consuming() []kgo.Opt {
	cfg := m.b.cfg
	o := []kgo.Opt{
		kgo.ConsumerGroup(m.s.Group),
		kgo.ConsumeTopics(m.s.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Positions come past the marks that end transactions, so that lag ends at 0.
		kgo.KeepControlRecords(),
		kgo.AdjustFetchOffsetsFn(m.takeOver),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(max(cfg.SessionTimeout/10, 300*time.Millisecond)),
		kgo.RebalanceTimeout(cfg.DrainTimeout + cfg.SessionTimeout),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(partitionBytes),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) { m.revoked(ctx, gone) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.lost(gone) }),
	}
	if cfg.InstanceID != "" {
		o = append(o, kgo.InstanceID(cfg.InstanceID))
	}
	return o
}

// record decodes what was read.
func record(r *kgo.Record) settle.Record {
	found := settle.Record{
		Position: r.Offset, Raw: r.Value, Headers: decodeHeaders(r.Headers), Key: string(r.Key), RecordedAt: recordedAt(r),
		At: settle.Coordinates{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset},
	}
	cloudevents.Kafka.Read(&found, "")
	switch {
	case found.Event != nil:
		found.Event.Topic = r.Topic
	case r.Value == nil:
		found.DecodeErr = errors.New("a tombstone: the record has no value, which deletes its key from a compacted topic and is no event")
	}
	return found
}

// recordedAt is the time of a record. Kafka takes -1 for none; any other that is
// before 1970 is one that the client has no room for.
func recordedAt(r *kgo.Record) time.Time {
	if r.Timestamp.UnixMilli() < 0 {
		return time.Time{}
	}
	return r.Timestamp
}
