package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
)

type sink struct {
	mu  sync.Mutex
	ids map[string]int
	n   chan struct{}
}

func (s *sink) Deliver(_ context.Context, _ settle.Partition, records []settle.Record) error {
	for _, r := range records {
		s.mu.Lock()
		s.ids[r.Event.ID]++
		s.mu.Unlock()
		s.n <- struct{}{}
	}
	return nil
}

func message(id, key string) settle.Message {
	return settle.Message{ID: id, Event: &settle.Event{ID: id, Type: "t", AggregateID: key, Payload: []byte(`{}`)}}
}

func TestMembersOfAGroupShareAndAFullTopicIsATopicError(t *testing.T) {
	b := memory.New(memory.Config{MaxBytes: 1 << 14})
	ctx, cancel := context.WithCancel(t.Context())
	defer b.Close()
	defer cancel()
	s := &sink{ids: map[string]int{}, n: make(chan struct{}, 1000)}
	var members sync.WaitGroup
	for range 3 {
		members.Go(func() {
			_ = b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{settle.DefaultTopic}}, s)
		})
	}
	stored := 0
	for i := 0; ; i++ {
		got := b.Publish(ctx, []settle.Message{message(fmt.Sprint("e", i), fmt.Sprint("k", i))})[0]
		if got.Err != nil {
			if settle.ScopeOf(got.Err) != settle.ScopeTopic {
				t.Fatalf("a full topic says %v", got.Err)
			}
			break
		}
		stored++
	}
	for range stored {
		select {
		case <-s.n:
		case <-time.After(5 * time.Second):
			t.Fatal("not all was delivered")
		}
	}
	cancel()
	members.Wait()
	for id, n := range s.ids {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}
