package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/bridge"
)

// errMoved ends a membership whose partitions were given away while the sink
// would not take their letters.
var errMoved = errors.New("partitions have moved")

// errAnew ends a membership that reads a topic which is not there any more.
var errAnew = errors.New("a topic of dead letters was deleted, or made anew")

// letterReader is one membership of the group that reads dead letters. Nothing
// is committed by itself.
type letterReader struct {
	*letterSource
	cl   *kgo.Client
	sink bridge.Sink
	// moved says that partitions were given away.
	moved atomic.Bool
	// told is the last trouble that was.
	told string
	// came says that letters were kept and committed.
	came bool
}

// member reads until ctx is done, or an error. It reports whether letters were
// kept.
func (s *letterSource) member(ctx context.Context, sink bridge.Sink) (bool, error) {
	r := &letterReader{letterSource: s, sink: sink}
	cl, err := kgo.NewClient(append(s.b.connecting(), r.consuming()...)...)
	if err != nil {
		return false, err
	}
	r.cl = cl
	// Crash here: what was read and not committed is read again.
	defer cl.CloseAllowingRebalance()
	for {
		if err := r.poll(ctx); err != nil {
			return r.came, err
		}
	}
}

func (r *letterReader) consuming() []kgo.Opt {
	cfg := r.b.cfg
	given := func(context.Context, *kgo.Client, map[string][]int32) { r.moved.Store(true) }
	return []kgo.Opt{
		kgo.ConsumerGroup(bridgePrefix + r.g.Name),
		kgo.ConsumeTopics(r.g.Dead...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(max(cfg.SessionTimeout/10, 300*time.Millisecond)),
		kgo.RebalanceTimeout(cfg.DrainTimeout + cfg.SessionTimeout),
		kgo.FetchMaxBytes(bridge.MaxBytes),
		kgo.FetchMaxPartitionBytes(partitionBytes),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.OnPartitionsRevoked(given),
		kgo.OnPartitionsLost(given),
	}
}

// poll passes on what is read next. Partitions are given away between two polls,
// or while the sink fails.
func (r *letterReader) poll(ctx context.Context) error {
	fetches := r.cl.PollRecords(ctx, bridge.MaxLetters)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.moved.Store(false)
	if err := r.troubled(ctx, fetches); err != nil {
		return err
	}
	var batch []bridge.Letter
	var last []*kgo.Record
	size := 0
	flush := func() (err error) {
		if len(batch) > 0 {
			err = r.keep(ctx, batch, last)
		}
		batch, last, size = nil, nil, 0
		return err
	}
	var failed error
	fetches.EachTopic(func(t kgo.FetchTopic) {
		t.EachRecord(func(found *kgo.Record) {
			if n := len(found.Value); failed == nil && len(batch) > 0 && size+n > bridge.MaxBytes {
				failed = flush()
			}
			if failed == nil {
				batch, last, size = append(batch, r.letter(t.TopicID, found)), append(last, found), size+len(found.Value)
			}
		})
	})
	if failed == nil {
		failed = flush()
	}
	if failed == nil {
		r.cl.AllowRebalance()
	}
	return failed
}

// troubled tells once of what can't be read, waits a little then, and returns
// what ends the membership.
func (r *letterReader) troubled(ctx context.Context, fetches kgo.Fetches) error {
	var trouble error
	fetches.EachError(func(topic string, _ int32, err error) { trouble = fmt.Errorf("topic %q: %w", topic, err) })
	var session *kgo.ErrGroupSession
	switch {
	case trouble == nil:
		r.told = ""
		return nil
	case isAny(trouble, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID):
		return errAnew
	case errors.As(trouble, &session), isAny(trouble, kerr.TopicAuthorizationFailed):
		return trouble
	}
	if now := trouble.Error(); now != r.told {
		r.told = now
		r.b.cfg.Log.Warn("reading dead letters from Kafka fails and is tried again", "consumer_group", r.g.Name, "error", trouble)
	}
	pause(ctx, retryWait)
	return nil
}

// keep passes letters on until the sink has them, then commits their positions.
// A position is never committed that stands behind a letter which is not kept:
// whoever owned its partition in between has committed what he had kept, and it
// is at worst read twice.
func (r *letterReader) keep(ctx context.Context, letters []bridge.Letter, found []*kgo.Record) error {
	for wait := retryWait / 2; ; wait = min(2*wait, maxLetterWait) {
		if err := r.sink(ctx, letters); err == nil {
			break
		}
		r.cl.AllowRebalance() // nobody waits for a sink that is broken
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		if r.moved.Load() {
			return errMoved
		}
	}
	// Crash here: the letters are kept, and come again under the same identities.
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, f := range found {
		if offsets[f.Topic] == nil {
			offsets[f.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[f.Topic][f.Partition] = kgo.EpochOffset{Epoch: f.LeaderEpoch, Offset: f.Offset + 1}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.b.cfg.Timeout)
	defer cancel()
	if err := send(bounded, r.cl, offsets); err != nil {
		return fmt.Errorf("commit positions: %w", err)
	}
	r.came = true
	return nil
}
