//go:build unix

package nats_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

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
