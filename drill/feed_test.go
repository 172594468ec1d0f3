package drill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/settlemq/settle/drill"
)

func requests(n int) []drill.Request {
	all := make([]drill.Request, n)
	for i := range all {
		all[i] = drill.Request{Key: fmt.Sprintf("k%d", i), Items: []drill.Line{{SKU: "a", Quantity: 1}}}
	}
	return all
}

func TestAFeedAsksWithTheSameKeyUntilItIsAnswered(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	f := &drill.Feed{Doubt: 1, Place: func(_ context.Context, r drill.Request) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked[r.Key]++; asked[r.Key] == 1 {
			return "", errors.New("connection reset")
		}
		return "order-" + r.Key, nil
	}}
	if err := f.Run(t.Context(), requests(20)); err != nil {
		t.Fatal(err)
	}
	answered, times := f.Placed()
	if answered != 20 || times != 60 || len(f.Answers()) != 40 {
		t.Errorf("%d answered, %d asked, %d answers; want 20, 60 (one lost, one answered, one repeated), 40", answered, times, len(f.Answers()))
	}
	for _, a := range f.Answers() {
		if a.OrderID != "order-"+a.Key {
			t.Errorf("answer %+v", a)
		}
	}
}

func TestAFeedEndsAtARefusalAndAtTheEndOfItsContext(t *testing.T) {
	f := &drill.Feed{Place: func(context.Context, drill.Request) (string, error) {
		return "", fmt.Errorf("no such article: %w", drill.ErrRefused)
	}}
	if err := f.Run(t.Context(), requests(100)); !errors.Is(err, drill.ErrRefused) || !strings.Contains(err.Error(), "place order k") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f = &drill.Feed{Place: func(context.Context, drill.Request) (string, error) {
		cancel()
		return "", errors.New("no answer")
	}}
	if err := f.Run(ctx, requests(100)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAGateHoldsTheFeed(t *testing.T) {
	open := make(chan struct{})
	f := &drill.Feed{
		Place: func(_ context.Context, r drill.Request) (string, error) { return r.Key, nil },
		Gate: func(ctx context.Context, i int) error {
			if i == 5 {
				select {
				case <-open:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		},
	}
	done := make(chan error, 1)
	go func() { done <- f.Run(t.Context(), requests(10)) }()
	eventually(t, 5e9, "five are placed", func() bool { n, _ := f.Placed(); return n == 5 })
	close(open)
	if err := <-done; err != nil || len(f.Answers()) != 10 {
		t.Errorf("%d answers, %v", len(f.Answers()), err)
	}
}
