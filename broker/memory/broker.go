// Package memory is a broker inside the process: partitioned topics, groups
// that share them, bounded memory, the contract of every other broker. It is
// for quick starts and tests; nothing of it survives the process.
package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Config shapes a Broker. The zero value works.
type Config struct {
	// Partitions is how many each topic has. Defaults to 16.
	Partitions int
	// Topics, if not empty, are the only ones: others are refused as a topic
	// error. Defaults to none: a topic is there when it is first used.
	Topics []string
	// MaxRecord is the largest envelope with its headers, in bytes. Defaults to
	// 2 MiB.
	MaxRecord int
	// MaxBytes bounds what a topic keeps; when it is full, publishing to it
	// fails as a topic error and nothing is dropped. Defaults to 256 MiB.
	MaxBytes int64
	// DedupWindow is how long a message id is remembered. Defaults to 2 min;
	// negative means never.
	DedupWindow time.Duration
	// Log takes warnings. Defaults to none.
	Log *slog.Logger
}

// Broker is a connection to a broker in memory. Its methods may be called from
// several goroutines.
type Broker struct {
	*hub
	calls sync.WaitGroup
	// closing is closed by Close.
	closing chan struct{}
	closed  bool // under hub.mu
}

// hub is what the connections share.
type hub struct {
	cfg    Config
	mu     sync.Mutex
	topics map[string]*topic
	groups map[groupKey]*membership
}

var _ settle.Broker = (*Broker)(nil)

// New returns an empty broker.
func New(cfg Config) *Broker {
	if cfg.Partitions <= 0 {
		cfg.Partitions = 16
	}
	if cfg.MaxRecord <= 0 {
		cfg.MaxRecord = 2 << 20
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.DedupWindow == 0 {
		cfg.DedupWindow = 2 * time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &hub{cfg: cfg, topics: map[string]*topic{}, groups: map[groupKey]*membership{}}
	for _, name := range cfg.Topics {
		h.topics[name] = newTopic(cfg.Partitions)
	}
	return &Broker{hub: h, closing: make(chan struct{})}
}

// Connect returns another connection to the same broker, as another process
// would have. Closing one leaves the others.
func (b *Broker) Connect() *Broker {
	return &Broker{hub: b.hub, closing: make(chan struct{})}
}

// Publish implements settle.Publisher. It does not block.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	failed := make(map[string]error)
	now := time.Now()
	for i, m := range batch {
		key := ""
		if m.Event != nil {
			key = m.Event.Key()
		}
		if before := failed[key]; before != nil && key != "" {
			receipts[i].Err = &settle.PublishError{Scope: settle.ScopeOf(before), Err: fmt.Errorf("not sent: an earlier event of its key failed: %v", before)}
			continue
		}
		at, duplicate, err := b.publish(ctx, m, now)
		receipts[i] = settle.Receipt{At: at, Duplicate: duplicate, Err: err}
		if err != nil {
			failed[key] = err
		}
	}
	return receipts
}

func (b *Broker) publish(ctx context.Context, m settle.Message, now time.Time) (settle.Coordinates, bool, error) {
	if err := ctx.Err(); err != nil {
		return settle.Coordinates{}, false, &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	if err := m.Validate(); err != nil {
		return settle.Coordinates{}, false, err
	}
	name := topicOf(m.Event)
	r := entry{id: m.ID, key: m.Event.Key(), value: settle.AppendEnvelope(nil, m.Event), headers: settle.WireHeaders(m), at: now}
	if size := r.size(); size > b.cfg.MaxRecord {
		return settle.Coordinates{}, false, settle.TooLarge(m.Event, size, b.cfg.MaxRecord)
	}
	return b.store(name, settle.PartitionOf(r.key, b.cfg.Partitions), r)
}

// PublishRaw appends a record as a foreign producer would: any bytes, any
// headers, no message id.
func (b *Broker) PublishRaw(name, key string, value []byte, headers map[string]string) error {
	r := entry{key: key, value: append([]byte(nil), value...), at: time.Now()}
	for k, v := range headers {
		r.headers = append(r.headers, [2]string{k, v})
	}
	_, _, err := b.store(name, settle.PartitionOf(key, b.cfg.Partitions), r)
	return err
}

func (b *Broker) store(name string, partition int, r entry) (settle.Coordinates, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return settle.Coordinates{}, false, settle.ErrClosed
	}
	t, err := b.topic(name)
	if err != nil {
		return settle.Coordinates{}, false, &settle.PublishError{Scope: settle.ScopeTopic, Err: err}
	}
	if at, ok := t.seen(r.id, r.at, b.cfg.DedupWindow); ok {
		return settle.Coordinates{Topic: name, Partition: at.partition, Offset: at.position}, true, nil
	}
	if t.bytes+int64(r.size()) > b.cfg.MaxBytes {
		return settle.Coordinates{}, false, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("topic %q is full: it keeps %d bytes", name, t.bytes)}
	}
	position := t.append(partition, r, b.cfg.DedupWindow)
	return settle.Coordinates{Topic: name, Partition: partition, Offset: position}, false, nil
}

// topic finds or makes a topic. Its caller holds the lock.
func (h *hub) topic(name string) (*topic, error) {
	t := h.topics[name]
	if t == nil {
		if len(h.cfg.Topics) > 0 {
			return nil, fmt.Errorf("no topic %q", name)
		}
		t = newTopic(h.cfg.Partitions)
		h.topics[name] = t
	}
	return t, nil
}

// Recreate makes a topic anew: empty, and of another generation. Groups whose
// positions the broker keeps start again.
func (b *Broker) Recreate(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.topics[name]; old != nil {
		for i := range old.partitions {
			close(old.partitions[i].changed)
		}
	}
	b.topics[name] = newTopic(b.cfg.Partitions)
	for k, m := range b.groups {
		if k.topic == name {
			m.restart()
		}
	}
}

// Log returns everything a topic keeps, in the order it was stored.
func (b *Broker) Log(name string) []settle.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		return nil
	}
	all := make([]settle.Record, t.last)
	for n, p := range t.partitions {
		for _, r := range p.entries {
			all[r.position-1] = r.record(name, n)
		}
	}
	return all
}

// Close ends subscriptions with ErrClosed and waits for them. Publishing
// fails from then on.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.closing)
	}
	b.mu.Unlock()
	b.calls.Wait()
	return nil
}

// begin counts a subscription that Close has to wait for.
func (b *Broker) begin(s settle.Subscription, sink settle.Sink) error {
	switch {
	case s.Group == "":
		return errors.New("subscribe: the subscription names no group")
	case len(s.Topics) == 0:
		return errors.New("subscribe: the subscription names no topic")
	case sink == nil:
		return errors.New("subscribe: there is no sink")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return settle.ErrClosed
	}
	b.calls.Add(1)
	return nil
}

func topicOf(e *settle.Event) string {
	if e.Topic == "" {
		return settle.DefaultTopic
	}
	return e.Topic
}
