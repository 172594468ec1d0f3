package shop

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

const laterOrder = `{"customerId":"c","amount":"11.77","items":[{"sku":"a","quantity":1}],"pay":"later"}`

// wishes posts to /orders/{id}/{what}.
func (e *entry) wishes(t testing.TB, id, what string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, e.url+"/orders/"+id+"/"+what, nil)
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	return do(t, req)
}

// takes lets an order take inputs as if events had come.
func (e *entry) takes(t testing.TB, id string, inputs ...string) {
	t.Helper()
	err := inTx(t.Context(), e.orders.db, func(tx *sql.Tx) error {
		for _, input := range inputs {
			if err := e.orders.take(t.Context(), tx, id, input, "for a test"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACustomerPaysAndCancelsWhileTheOrderLetsThem(t *testing.T) {
	e := newEntry(t, 10, 10)
	const reserved, approved, paid, shipped = lifecycle.InventoryReserved, lifecycle.RiskApproved, lifecycle.PaymentSucceeded, lifecycle.FulfilmentShipped
	for i, c := range []struct {
		before []string
		what   string
		status int
		want   string
		events int64 // that the wish adds
	}{
		{nil, "cancel", 200, `"status":"CANCELLED","reason":"cancelled by the customer"`, 1},
		{[]string{reserved, approved}, "cancel", 200, `"status":"CANCELLED"`, 1},
		{[]string{lifecycle.RiskRejected}, "cancel", 200, `"reason":"not approved by risk: for a test"`, 0},
		{[]string{paid}, "cancel", 409, "the order is PAID; it can't be cancelled any more", 0},
		{[]string{paid, shipped}, "cancel", 409, "the order is COMPLETED", 0},
		{nil, "pay", 200, `"status":"CREATED"`, 1},
		{[]string{reserved, approved}, "pay", 200, `"status":"CONFIRMED"`, 1},
		{[]string{paid}, "pay", 200, `"status":"PAID"`, 0},
		{[]string{paid, shipped}, "pay", 200, `"status":"COMPLETED"`, 0},
		{[]string{lifecycle.OrderPaymentDue}, "pay", 409, "the order was cancelled (not paid within 15m0s); it can't be paid any more", 0},
	} {
		key := fmt.Sprint("k", i)
		e.post(t, key, laterOrder)
		e.takes(t, OrderID(key), c.before...)
		before := e.count(t, "t_outbox_event")
		for range 2 { // a repeat is answered alike and does nothing
			status, header, body := e.wishes(t, OrderID(key), c.what)
			if status != c.status || !strings.Contains(body, c.want) || (status == 409) != (header.Get("Content-Type") == "application/problem+json") {
				t.Errorf("%s after %v: %d %s; want %d %s", c.what, c.before, status, body, c.status, c.want)
			}
		}
		if added := e.count(t, "t_outbox_event") - before; added != c.events {
			t.Errorf("%s after %v adds %d events; want %d", c.what, c.before, added, c.events)
		}
	}
	for _, what := range []string{"pay", "cancel"} {
		if status, _, body := e.wishes(t, "o-none", what); status != 404 || !strings.Contains(body, "there is no order o-none") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

func TestAnOrderThatIsPaidAtOnceNeedsNoAsking(t *testing.T) {
	e := newEntry(t, 10, 10)
	e.post(t, "k", goodOrder)
	if status, _, body := e.wishes(t, OrderID("k"), "pay"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if n := e.count(t, "t_outbox_event WHERE event_type = 'order.pay_requested'"); n != 0 {
		t.Errorf("%d requests to pay", n)
	}
}

func TestManyWishesAtOnceTakeEffectOnce(t *testing.T) {
	onEachDatabase(t, testManyWishesAtOnceTakeEffectOnce)
}

func testManyWishesAtOnceTakeEffectOnce(t *testing.T, dir string) {
	e := newEntryIn(t, dir, 200, 16, entryTimeouts{})
	e.post(t, "k", laterOrder)
	var clients sync.WaitGroup
	for i := range 60 {
		clients.Go(func() {
			what, want := "pay", []int{200, 409}
			if i%2 == 0 {
				what, want = "cancel", []int{200, 200}
			}
			if status, _, body := e.wishes(t, OrderID("k"), what); status != want[0] && status != want[1] {
				t.Errorf("%s: %d %s", what, status, body)
			}
		})
	}
	clients.Wait()
	if n := e.count(t, "t_outbox_event WHERE event_type = 'order.cancelled'"); n != 1 {
		t.Errorf("%d cancellations", n)
	}
	if n := e.count(t, "t_outbox_event WHERE event_type = 'order.pay_requested'"); n > 1 {
		t.Errorf("%d requests to pay", n)
	}
}

func TestAnOrderAndItsCancellationMayShareACommit(t *testing.T) {
	orders := ordersIn(t)
	c := newCommitter(orders, 10, 10, nil)
	r := OrderRequest{CustomerID: "c", Amount: 1, Items: []Item{{"a", 1}}}
	batch := []*pending{
		{change: &wish{orderID: OrderID("k"), input: lifecycle.CustomerPays}, done: make(chan error, 1)},
		{change: &placement{key: "k", request: r, hash: r.hash()}, done: make(chan error, 1)},
		{change: &wish{orderID: OrderID("k"), input: lifecycle.CustomerCancels}, done: make(chan error, 1)},
	}
	c.commit(t.Context(), batch)
	for _, p := range batch {
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	}
	if !batch[0].change.(*wish).unknown || batch[2].change.(*wish).refused() != "" {
		t.Errorf("%+v, %+v", batch[0].change, batch[2].change)
	}
	err := inTx(t.Context(), orders.db, func(tx *sql.Tx) error {
		var last string
		err := tx.QueryRow(`SELECT event_type FROM t_outbox_event ORDER BY id DESC`).Scan(&last)
		if err == nil && last != lifecycle.OrderCancelled {
			err = errors.New("the last event is " + last)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOverloadShedsWishesAsItShedsOrders(t *testing.T) {
	e := newEntry(t, 4, 2)
	for i := range 40 {
		e.post(t, fmt.Sprint("k", i), laterOrder)
	}
	release := e.hold(t)
	done, shed := overload(t, release, http.StatusOK, func(i int) (int, http.Header, string) {
		return e.wishes(t, OrderID(fmt.Sprint("k", i)), []string{"pay", "cancel"}[i%2])
	})
	if changed := e.count(t, "t_order WHERE version = 2"); changed != done {
		t.Errorf("%d done and %d shed for the clients; %d changed in the database", done, shed, changed)
	}
}

func TestAWishIsAnsweredByItsDeadlineAndNotDoneAfterIt(t *testing.T) {
	e := newEntryIn(t, t.TempDir(), 10, 10, entryTimeouts{Answer: 50 * time.Millisecond})
	tell(t, e.orders, "first", PayLater)
	tell(t, e.orders, "second", PayLater)
	release := e.hold(t)
	// The first is in the committer's hands when its time is over: it may be
	// done. The second waits behind it: it is not.
	for _, key := range []string{"first", "second"} {
		if status, header, body := e.wishes(t, OrderID(key), "cancel"); status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, "may or may not") {
			t.Errorf("%s: %d %s", key, status, body)
		}
	}
	release()
	r := OrderRequest{CustomerID: "c", Amount: 1, Items: []Item{{"a", 1}}}
	if err := e.committer.submit(t.Context(), &placement{key: "third", request: r, hash: r.hash()}); err != nil {
		t.Error(err) // whatever was in the queue before it is done now
	}
	if n := e.count(t, "t_order WHERE request_key = 'second' AND status = 'CANCELLED'"); n != 0 {
		t.Error("a wish that nobody waited for any more was fulfilled")
	}
}
