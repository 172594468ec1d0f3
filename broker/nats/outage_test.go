//go:build unix

package nats_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
)

// inOrder is a sink that expects n events of each key, once and in order.
type inOrder struct {
	mu   sync.Mutex
	next map[string]int64
	left int
	bad  []string
	done chan struct{}
	hold func()
}

func (s *inOrder) Deliver(_ context.Context, _ settle.Partition, records []settle.Record) error {
	if s.hold != nil {
		s.hold()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if r.Event.AggregateSeq != s.next[r.Event.AggregateID]+1 {
			s.bad = append(s.bad, fmt.Sprintf("%d of key %s comes after %d", r.Event.AggregateSeq, r.Event.AggregateID, s.next[r.Event.AggregateID]))
		}
		s.next[r.Event.AggregateID] = r.Event.AggregateSeq
		if s.left--; s.left == 0 {
			close(s.done)
		}
	}
	return nil
}

func (s *inOrder) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		t.Error("not all was delivered")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.bad {
		t.Error(what)
	}
}

// subscribe reads in the background until the test ends.
func subscribe(t *testing.T, b *nats.Broker, sink settle.Sink) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{topicName}, Ownership: ownAll{}}, sink)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// send publishes the next event of each of 40 keys, again and again until all
// are held, and returns how often it was told that the broker is away.
func send(t *testing.T, b *nats.Broker, seq int) (failures int) {
	t.Helper()
	batch := make([]settle.Message, 40)
	for i := range batch {
		batch[i] = message(fmt.Sprintf("k%d-%d", i, seq), fmt.Sprint("k", i))
		batch[i].Event.AggregateSeq = int64(seq)
	}
	for deadline := time.Now().Add(30 * time.Second); ; failures++ {
		var rest []settle.Message
		for i, r := range b.Publish(t.Context(), batch) {
			if r.Err == nil {
				continue
			}
			if settle.ScopeOf(r.Err) != settle.ScopeBroker {
				t.Fatalf("the broker is away, and this is said: %v", r.Err)
			}
			rest = append(rest, batch[i])
		}
		if len(rest) == 0 {
			return failures
		}
		if batch = rest; time.Now().After(deadline) {
			t.Fatal("the broker does not come back")
		}
	}
}

func TestAServerThatHangsIsLeftAndFoundAgain(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	t.Cleanup(func() { _ = b.Close() })
	sink := &inOrder{next: map[string]int64{}, left: 3 * 40, done: make(chan struct{})}
	subscribe(t, b, sink)
	send(t, b, 1)
	if err := r.child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := time.AfterFunc(3*time.Second, func() { _ = r.child.Process.Signal(syscall.SIGCONT) })
	defer resume.Stop()
	if send(t, b, 2) == 0 {
		t.Error("nothing failed while the server was stopped")
	}
	send(t, b, 3)
	sink.await(t)
}

func TestASinkThatIsBusyLongerThanAPullLastsMissesNothing(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes 8 s; set SETTLE_TEST_ALL=1")
	}
	b := open(t, newRig(t).url)
	t.Cleanup(func() { _ = b.Close() })
	const rounds = 200
	sink := &inOrder{next: map[string]int64{}, left: rounds * 40, done: make(chan struct{})}
	var first sync.Once
	sink.hold = func() { first.Do(func() { time.Sleep(7 * time.Second) }) }
	subscribe(t, b, sink)
	for seq := range rounds {
		send(t, b, seq+1)
	}
	sink.await(t)
}

// one owns partition 0 of a topic from a floor on, for ever.
type one struct {
	floor settle.Floor
	topic string
}

func (o one) Claim(context.Context, string, int) ([]settle.Claim, error) {
	return []settle.Claim{{Partition: settle.Partition{Topic: o.topic, Owner: "m", Epoch: 1}, Floor: o.floor}}, nil
}

func (o one) RaiseFloor(context.Context, settle.Partition, settle.Floor) error { return nil }

// first is a sink that keeps the first record, and tells that there is one.
type first struct {
	once sync.Once
	at   settle.Partition
	got  settle.Record
	has  chan struct{}
}

func (f *first) Deliver(_ context.Context, p settle.Partition, records []settle.Record) error {
	f.once.Do(func() {
		f.at, f.got = p, records[0]
		close(f.has)
	})
	return nil
}

func TestRecordsThatWentBeforeTheGroupHadReadOnAreToldOnce(t *testing.T) {
	r := newRig(t)
	var lines lineCounter
	cfg := config()
	cfg.Partitions, cfg.Log = 1, slog.New(&lines)
	b, err := nats.Open(t.Context(), r.url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	read := func(floor settle.Floor) *first {
		f := &first{has: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{topicName}, Ownership: one{floor, topicName}}, f)
		}()
		select {
		case <-f.has:
		case <-time.After(time.Minute):
			t.Error("nothing is delivered")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return f
	}
	for i := range 5 {
		if got := b.Publish(t.Context(), []settle.Message{message(fmt.Sprint("e", i), "k")})[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	begun := read(settle.Floor{})
	stream, err := r.js(t).Stream(t.Context(), nats.StreamName(topicName))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	if n := lines.count("records were deleted"); n != 0 {
		t.Errorf("it is told %d times while nothing was", n)
	}
	next := read(settle.Floor{Generation: begun.at.Generation, Position: begun.got.Position, EventID: begun.got.Event.ID})
	if next.got.Position != 4 {
		t.Errorf("reading goes on at %d, want 4", next.got.Position)
	}
	if n := lines.count("records were deleted"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}

// lineCounter is a handler of log lines.
type lineCounter struct {
	mu    sync.Mutex
	lines []string
}

func (c *lineCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c *lineCounter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, r.Message)
	return nil
}

func (c *lineCounter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *lineCounter) WithGroup(string) slog.Handler      { return c }

func (c *lineCounter) count(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}
