package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle"
)

// Tap reaches a topic's partitions without anything that Publish and Subscribe
// promise: drills and checks read the log back with it, and write what a
// foreign program might. Its methods may be called from several goroutines.
type Tap struct {
	at    address
	cl    *kgo.Client
	admin *kadm.Client

	mu sync.Mutex
	// planted is where each message id was stored.
	planted map[string]settle.Coordinates
}

// OpenTap makes a tap for the cluster at url. It connects when it is used.
func OpenTap(url string) (*Tap, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	t := &Tap{at: at, planted: map[string]settle.Coordinates{}}
	if t.cl, err = kgo.NewClient(append(t.connecting(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...); err != nil {
		return nil, err
	}
	t.admin = kadm.NewClient(t.cl)
	return t, nil
}

func (t *Tap) connecting() []kgo.Opt {
	o := []kgo.Opt{kgo.SeedBrokers(t.at.hosts...), kgo.ClientID("settle-tap"), kgo.MetadataMinAge(metadataWait)}
	if t.at.sasl != nil {
		o = append(o, kgo.SASL(t.at.sasl))
	}
	if t.at.tls != nil {
		o = append(o, kgo.DialTLSConfig(t.at.tls))
	}
	return o
}

// Close ends the connections.
func (t *Tap) Close() error {
	t.cl.Close()
	return nil
}

// Ready returns nil if the cluster answers.
func (t *Tap) Ready(ctx context.Context) error { return t.cl.Ping(ctx) }

// Keep does nothing: a topic keeps what comes.
func (t *Tap) Keep(context.Context, string, []string) error { return nil }

// Forget does nothing, as Keep.
func (t *Tap) Forget(context.Context, string) error { return nil }

// Places reports that an acknowledgement says where a record is.
func (t *Tap) Places() bool { return true }

// stretch is what is read of a partition: positions from and up to, but not
// including, to.
type stretch struct {
	partition int32
	from, to  int64
}

// stretches returns what a topic holds now, by partition. A topic that is
// missing holds nothing; what an open transaction has written is not held yet.
func (t *Tap) stretches(ctx context.Context, topic string) ([]stretch, error) {
	starts, err := t.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("look at topic %q: %w", topic, err)
	}
	ends, err := t.admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("look at topic %q: %w", topic, err)
	}
	var all []stretch
	for p, start := range starts[topic] {
		end := ends[topic][p]
		if err := errors.Join(start.Err, end.Err); errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("look at partition %d of topic %q: %w", p, topic, err)
		}
		if end.Offset > start.Offset {
			all = append(all, stretch{p, start.Offset, end.Offset})
		}
	}
	slices.SortFunc(all, func(a, b stretch) int { return int(a.partition - b.partition) })
	return all, nil
}

// ReadAll calls visit with every record that topic holds now, those of one
// partition in their order.
func (t *Tap) ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error {
	all, err := t.stretches(ctx, topic)
	if err != nil {
		return err
	}
	return t.read(ctx, topic, all, visit)
}

// ReadSome does the same with up to n consecutive records of one partition,
// from one place in the log: 0 is its beginning, 1 its end.
func (t *Tap) ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error {
	all, err := t.stretches(ctx, topic)
	if err != nil || len(all) == 0 {
		return err
	}
	total := int64(0)
	for _, s := range all {
		total += s.to - s.from
	}
	at := int64(place * float64(total))
	for i, s := range all {
		if at >= s.to-s.from && i < len(all)-1 {
			at -= s.to - s.from
			continue
		}
		from := max(s.from, min(s.from+at, s.to-int64(n)))
		return t.read(ctx, topic, []stretch{{s.partition, from, min(from+int64(n), s.to)}}, visit)
	}
	return nil
}

// read reads stretches to their ends. The last position of one may be that of a
// transaction's mark, which is passed over.
func (t *Tap) read(ctx context.Context, topic string, all []stretch, visit func(settle.Record) error) error {
	if len(all) == 0 {
		return nil
	}
	offsets, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, s := range all {
		offsets[s.partition], left[s.partition] = kgo.NewOffset().At(s.from), s.to
	}
	cl, err := kgo.NewClient(append(t.connecting(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		return fmt.Errorf("read topic %q: %w", topic, err)
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %q: %w", topic, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			to, reading := left[r.Partition]
			if !reading {
				continue
			}
			if r.Offset < to && !r.Attrs.IsControl() {
				if err := visit(record(r)); err != nil {
					return err
				}
			}
			if r.Offset >= to-1 {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}

// Plant stores value as it is, without a key, and returns where, once the
// cluster has acknowledged it. It blocks until then or until ctx is done.
// partition is taken modulo how many the topic has. Under one message id this
// tap stores once.
func (t *Tap) Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, is := t.planted[messageID]; is {
		return at, nil
	}
	topics, err := t.admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	r := &kgo.Record{Topic: topic, Partition: int32(partition % len(topics[topic].Partitions)), Value: value}
	for k, v := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	if err := t.cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	at := settle.Coordinates{Topic: topic, Partition: int(r.Partition), Offset: r.Offset}
	t.planted[messageID] = at
	return at, nil
}

// Remove deletes a topic with all that it holds, and groups with their
// positions; members that were killed and are counted still are put out. What
// is gone is left at that.
func (t *Tap) Remove(ctx context.Context, topic string, groups []string) error {
	var failed []error
	for _, group := range groups {
		if err := t.removeGroup(ctx, group); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			failed = append(failed, fmt.Errorf("delete consumer group %q: %w", group, err))
		}
	}
	if _, err := t.admin.DeleteTopic(ctx, topic); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		failed = append(failed, fmt.Errorf("delete topic %q: %w", topic, err))
	}
	return errors.Join(failed...)
}

func (t *Tap) removeGroup(ctx context.Context, group string) error {
	described, err := t.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = described[group].Err
	}
	if err != nil {
		return err
	}
	if members := described[group].Members; len(members) > 0 {
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group = group
		for _, m := range members {
			gone := kmsg.NewLeaveGroupRequestMember()
			gone.MemberID, gone.InstanceID = m.MemberID, m.InstanceID
			leave.Members = append(leave.Members, gone)
		}
		if _, err := leave.RequestWith(ctx, t.cl); err != nil {
			return err
		}
	}
	_, err = t.admin.DeleteGroup(ctx, group)
	return err
}
