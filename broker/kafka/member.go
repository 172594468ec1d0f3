package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// commitEvery is the shortest time between two commits of a member.
const commitEvery = 50 * time.Millisecond

// place is a partition of a topic.
type place struct {
	topic  string
	number int32
}

// member is one membership of a group: a client of its own, and a worker for
// each partition that has records.
type member struct {
	b    *Broker
	cl   *kgo.Client
	s    settle.Subscription
	sink settle.Sink
	// moved is told when a worker has come on.
	moved chan struct{}

	// committing is held from the choice of positions until they are written, so
	// that an older one never overwrites a newer one.
	committing sync.Mutex
	// unwritten says that positions could not be committed, and was told.
	unwritten bool

	mu      sync.Mutex
	workers map[place]*worker
	// begins are the positions at which partitions were taken over.
	begins map[place]int64
	// troubled is the last error of a read that was told, until one succeeds.
	troubled string
}

// poll hands out what is read. Partitions change hands between two reads only.
func (m *member) poll(ctx context.Context) {
	for {
		fetches := m.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		var trouble error
		anew := map[string]bool{}
		fetches.EachError(func(topic string, _ int32, err error) {
			trouble = err
			if errors.Is(err, kerr.UnknownTopicID) {
				anew[topic] = true
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				m.worker(ctx, place{p.Topic, p.Partition}).add(p)
			}
		})
		m.cl.AllowRebalance()
		m.tell(trouble)
		m.anew(anew)
		if trouble != nil && !pause(ctx, retryWait) {
			return
		}
	}
}

// anew reads topics that were made anew under their names: the client goes on
// asking for the old ones.
func (m *member) anew(topics map[string]bool) {
	for name := range topics {
		m.cl.PurgeTopicsFromConsuming(name)
		m.cl.AddConsumeTopics(name)
	}
}

// takeOver takes note of the positions that the group has committed.
func (m *member) takeOver(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, partitions := range offsets {
		for n, o := range partitions {
			m.begins[place{topic, n}] = max(o.EpochOffset().Offset, -1)
		}
	}
	return offsets, nil
}

// tell warns once of what can't be read, and once that it can again.
func (m *member) tell(trouble error) {
	now := ""
	if trouble != nil {
		now = trouble.Error()
	}
	if now == m.troubled {
		return
	}
	m.troubled = now
	if now == "" {
		m.b.cfg.Log.Info("reading from Kafka goes on", "consumer_group", m.s.Group)
		return
	}
	m.b.cfg.Log.Warn("reading from Kafka fails and is tried again", "consumer_group", m.s.Group, "error", trouble)
}

func (m *member) worker(ctx context.Context, at place) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.workers[at]
	if w == nil {
		begin, known := m.begins[at]
		if !known {
			begin = -1
		}
		w = newWorker(ctx, m, at, begin)
		m.workers[at] = w
	}
	return w
}

// revoked gives partitions to other members: deliveries in flight may end, and
// what they did is committed, so that the next owner begins behind it.
func (m *member) revoked(ctx context.Context, gone map[string][]int32) {
	ended := m.these(gone)
	m.end(ended, m.b.cfg.DrainTimeout)
	// Crash here: the next owner gets again what was not committed.
	m.commitOf(context.WithoutCancel(ctx), ended)
	m.drop(ended)
}

// lost partitions are another member's already: nothing can be committed.
func (m *member) lost(gone map[string][]int32) {
	ended := m.these(gone)
	m.end(ended, 0)
	m.drop(ended)
}

func (m *member) these(gone map[string][]int32) map[place]*worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[place]*worker{}
	for topic, numbers := range gone {
		for _, n := range numbers {
			if w := m.workers[place{topic, n}]; w != nil {
				found[place{topic, n}] = w
			}
		}
	}
	return found
}

func (m *member) all() map[place]*worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[place]*worker{}
	for at, w := range m.workers {
		found[at] = w
	}
	return found
}

// drop forgets workers that have ended. A partition that comes back is read.
func (m *member) drop(ended map[place]*worker) {
	// A commit under way may have chosen their positions.
	m.committing.Lock()
	defer m.committing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range ended {
		delete(m.workers, at)
		delete(m.begins, at)
		m.cl.ResumeFetchPartitions(map[string][]int32{at.topic: {at.number}})
	}
}

// end stops workers: nothing more is delivered, what is in flight may take
// patience, and is cancelled and waited for then.
func (m *member) end(workers map[place]*worker, patience time.Duration) {
	for _, w := range workers {
		w.stop()
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for _, w := range workers {
		select {
		case <-w.ended:
		case <-deadline.C:
			for _, w := range workers {
				w.cancel()
			}
			<-w.ended
		}
	}
}

// commitAll commits while workers come on, several partitions at a time.
func (m *member) commitAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.moved:
		}
		wait := commitEvery
		if !m.commit(ctx) {
			wait = retryWait
			m.wake()
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

func (m *member) commit(ctx context.Context) bool { return m.commitOf(ctx, m.all()) }

// commitOf reports whether all that workers have done is committed.
func (m *member) commitOf(ctx context.Context, workers map[place]*worker) bool {
	m.committing.Lock()
	defer m.committing.Unlock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for at, w := range workers {
		if o, is := w.uncommitted(); is {
			if offsets[at.topic] == nil {
				offsets[at.topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[at.topic][at.number] = o
		}
	}
	if len(offsets) == 0 {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, 2*m.b.cfg.Timeout)
	defer cancel()
	err := send(bounded, m.cl, offsets)
	if ctx.Err() == nil {
		m.tellCommit(err)
	}
	if err != nil {
		return false
	}
	for at, w := range workers {
		if o, is := offsets[at.topic][at.number]; is {
			w.committed(o.Offset)
		}
	}
	return true
}

// tellCommit warns once of positions that can't be committed. A rebalance is
// no trouble: what is to be committed then is when it has ended.
func (m *member) tellCommit(err error) {
	switch {
	case errors.Is(err, kerr.RebalanceInProgress):
	case err != nil && !m.unwritten:
		m.unwritten = true
		m.b.cfg.Log.Warn("positions could not be committed; they are tried again while the partitions are this member's", "consumer_group", m.s.Group, "error", err)
	case err == nil && m.unwritten:
		m.unwritten = false
		m.b.cfg.Log.Info("positions are committed again", "consumer_group", m.s.Group)
	}
}

func (m *member) wake() {
	select {
	case m.moved <- struct{}{}:
	default:
	}
}
