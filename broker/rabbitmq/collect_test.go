package rabbitmq_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
)

// collector is a sink that keeps what it is given, and a handler of log lines.
type collector struct {
	mu      sync.Mutex
	changed chan struct{}
	records []settle.Record
	lines   []string
}

func newCollector() *collector { return &collector{changed: make(chan struct{})} }

// Deliver implements settle.Sink.
func (c *collector) Deliver(_ context.Context, _ settle.Partition, records []settle.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = append(c.records, records...)
	c.touch()
	return nil
}

func (c *collector) touch() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Enabled, Handle, WithAttrs and WithGroup implement slog.Handler.
func (c *collector) Enabled(context.Context, slog.Level) bool { return true }

func (c *collector) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	c.touch()
	return nil
}

func (c *collector) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *collector) WithGroup(string) slog.Handler      { return c }

// await waits until ok holds, which is asked under the lock.
func (c *collector) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		met, changed := ok(), c.changed
		c.mu.Unlock()
		if met {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatalf("waited in vain for %s; the log says %q", what, c.lines)
		}
	}
}

// has tells whether events are there; its caller holds the lock.
func (c *collector) has(batch []settle.Message) bool {
	seen := map[string]bool{}
	for _, r := range c.records {
		if r.Event != nil {
			seen[r.Event.ID] = true
		}
	}
	for _, m := range batch {
		if !seen[m.Event.ID] {
			return false
		}
	}
	return true
}

// told counts lines with a text; its caller holds the lock.
func (c *collector) told(text string) (n int) {
	for _, l := range c.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// subscribe lets c read a topic until the test ends.
func (c *collector) subscribe(t testing.TB, b *rabbitmq.Broker, group, topic string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Subscribe(ctx, settle.Subscription{Group: group, Topics: []string{topic}}, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	})
}

// publishAll sends a batch again and again until all of it is held.
func publishAll(t testing.TB, b *rabbitmq.Broker, batch []settle.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(batch) > 0 {
		var rest []settle.Message
		var last error
		for i, r := range b.Publish(ctx, batch) {
			if r.Err != nil {
				rest, last = append(rest, batch[i]), r.Err
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%d events are not held: %v", len(rest), last)
		}
		batch = rest
	}
}

func events(topic, prefix string, n int) []settle.Message {
	batch := make([]settle.Message, n)
	for i := range batch {
		batch[i] = event(topic, prefix+string(rune('a'+i%26)), i/26+1)
	}
	return batch
}

// closing ends b with the test.
func closing(t testing.TB, b *rabbitmq.Broker) *rabbitmq.Broker {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}
