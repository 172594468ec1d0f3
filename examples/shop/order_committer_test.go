package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// hold keeps the file's turn, so that no commit gets through until release.
func (e *entry) hold(t *testing.T) (release func()) {
	t.Helper()
	tx, err := e.orders.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

func TestOrdersThatWaitShareACommit(t *testing.T) {
	e := newEntry(t, 100, 100)
	release := e.hold(t)
	var clients sync.WaitGroup
	for i := range 60 {
		clients.Go(func() {
			if status, _, body := e.post(t, fmt.Sprint("k", i), goodOrder); status != http.StatusCreated {
				t.Errorf("got %d %s", status, body)
			}
		})
	}
	release()
	clients.Wait()
	if n := e.commits.Load(); n == 0 || n > 30 || e.count(t, "t_outbox_event") != 120 {
		t.Errorf("%d commits for 60 orders, %d events", n, e.count(t, "t_outbox_event"))
	}
}

// overload lets 40 clients ask at once while nothing is committed, until 30 were
// shed, then lets go. Whoever is not shed is answered with status ok.
func overload(t *testing.T, release func(), ok int, ask func(i int) (status int, h http.Header, body string)) (done, shed int64) {
	t.Helper()
	var answered, refused atomic.Int64
	var clients sync.WaitGroup
	enough := make(chan struct{})
	for i := range 40 {
		clients.Go(func() {
			status, header, body := ask(i)
			switch {
			case status == ok:
				answered.Add(1)
			case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "" && strings.Contains(body, errBusy.Error()):
				if refused.Add(1) == 30 {
					close(enough)
				}
			default:
				t.Errorf("got %d %s", status, body)
			}
		})
	}
	<-enough
	release()
	clients.Wait()
	return answered.Load(), refused.Load()
}

func TestAFullQueueShedsAtOnceAndStoresNothingOfWhatItRefused(t *testing.T) {
	e := newEntry(t, 4, 2)
	release := e.hold(t)
	stored, shed := overload(t, release, http.StatusCreated, func(i int) (int, http.Header, string) {
		return e.post(t, fmt.Sprint("k", i), goodOrder)
	})
	if e.count(t, "t_order") != stored || e.count(t, "t_outbox_event") != 2*stored {
		t.Errorf("%d stored and %d shed for the clients; %d orders and %d events in the database", stored, shed, e.count(t, "t_order"), e.count(t, "t_outbox_event"))
	}
}

func TestAnOrderThatCannotBeStoredDoesNotHarmThoseBesideIt(t *testing.T) {
	orders := memberIn(t, t.TempDir(), "order").(*orderService)
	c := newCommitter(orders, 10, 10, nil)
	var batch []*pending
	for i := range 5 {
		r := OrderRequest{CustomerID: "c", Amount: 1, Items: []Item{{"a", 1}, {"b", 1}}}
		if i == 2 {
			r.Items[1].Quantity = -1 // got past the checks; the table refuses it
		}
		batch = append(batch, &pending{change: &placement{key: fmt.Sprint("k", i), request: r, hash: r.hash()}, done: make(chan error, 1)})
	}
	c.commit(t.Context(), batch)
	for i, p := range batch {
		if err := <-p.done; (err != nil) != (i == 2) {
			t.Errorf("order %d: %v", i, err)
		}
	}
	for table, want := range map[string]int64{"t_order": 4, "t_order_item": 8, "t_outbox_event": 8} {
		if n := number(t, orders.db.Reader, "SELECT COUNT(*) FROM "+table); n != want {
			t.Errorf("%d rows in %s; want %d", n, table, want)
		}
	}
}

// unwritable stands for a disk that is full.
type unwritable struct{}

func (unwritable) apply(context.Context, *sql.Tx, *orderService) ([]*settle.Event, error) {
	return nil, errors.New("no space left")
}

func TestHealthIsNotWellWhileTheLastOrderCouldNotBeStored(t *testing.T) {
	e := newEntry(t, 10, 10)
	well := func(why string, want int) {
		t.Helper()
		if status, body := e.get(t, "/healthz"); status != want {
			t.Errorf("%s: %d %s; want %d", why, status, body, want)
		}
	}
	fail := func() {
		t.Helper()
		if err := e.committer.submit(t.Context(), unwritable{}); err == nil {
			t.Fatal("it was stored")
		}
	}
	well("at first", http.StatusOK)
	fail()
	well("after a failure", http.StatusServiceUnavailable)
	e.post(t, "k", goodOrder)
	well("after an order", http.StatusOK)
	fail()
	e.orders.now = func() time.Time { return time.Now().Add(failureCounts) }
	well("long after a failure", http.StatusOK)
}

func TestAClientThatHasGoneIsLeftOut(t *testing.T) {
	c := newCommitter(nil, 10, 10, nil)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := c.submit(ctx, &placement{key: "gone"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gone, waits := <-c.queue, &pending{change: &placement{key: "waits"}, done: make(chan error, 1)}
	c.queue <- waits
	if batch := c.gather(gone); len(batch) != 1 || batch[0] != waits {
		t.Errorf("%d requests are served", len(batch))
	}
	if err := <-gone.done; !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}

func TestACommitterThatStopsRefusesWhatWaits(t *testing.T) {
	c := newCommitter(nil, 10, 10, nil)
	p := &pending{change: &placement{}, done: make(chan error, 1)}
	c.queue <- p
	c.refuse()
	if err := <-p.done; !errors.Is(err, errStopping) {
		t.Errorf("got %v", err)
	}
}
