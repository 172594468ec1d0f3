package springcontract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"
)

// amendments are how often each order of a load is changed after it was made.
const amendments = 3

// load is customers who order and change their minds until they are stopped.
// No request of theirs may fail.
type load struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu     sync.Mutex
	first  *sync.Cond
	keys   map[string][]string // the ids of each order's events, in their order
	orders int
	errs   []error
}

// customers is how many order at once: as many as the service has connections
// to the database.
const customers = 8

// order starts a load on s; name keeps its orders apart from those of others.
// Each customer rests for a while after each order.
func order(t *testing.T, s *service, name string, rest time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, keys: map[string][]string{}}
	l.first = sync.NewCond(&l.mu)
	for c := range customers {
		l.wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.place(s, fmt.Sprintf("%s-%d-%d", name, c, i))
				select {
				case <-time.After(rest):
				case <-ctx.Done():
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		l.wait.Wait()
	})
	return l
}

// place orders, and changes the order.
func (l *load) place(s *service, orderID string) {
	path, body := "/orders", map[string]any{"orderId": orderID, "userId": 9007199254740993, "amount": json.Number("199.00"), "note": "<&> 加急 \"x\""}
	for n := range 1 + amendments {
		var a answer
		err := s.post(path, body, &a)
		l.mu.Lock()
		if err != nil {
			l.errs = append(l.errs, err)
		} else {
			l.keys[orderID] = append(l.keys[orderID], a.EventID)
		}
		l.mu.Unlock()
		path, body = "/orders/"+orderID+"/amendments", map[string]any{"amount": json.Number(fmt.Sprintf("%d.10", n))}
	}
	l.mu.Lock()
	l.orders++
	l.first.Broadcast()
	l.mu.Unlock()
}

// more waits until n more orders were made.
func (l *load) more(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for until := l.orders + n; l.orders < until && len(l.errs) == 0; {
		l.first.Wait()
	}
}

// stop ends the load after the orders in hand and returns the ids of the events
// of each key, as the service has answered.
func (l *load) stop(t *testing.T) map[string][]string {
	t.Helper()
	l.cancel()
	l.wait.Wait()
	for _, err := range l.errs {
		t.Errorf("a request failed: %v", err)
	}
	return l.keys
}
