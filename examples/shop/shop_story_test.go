package shop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/examples/shop/outside"
	"github.com/settlemq/settle/govern"
)

// stocked starts a shop that has plenty of article a.
func stocked(t *testing.T, change func(*Config)) *running {
	t.Helper()
	cfg := testConfig(t.TempDir())
	if change != nil {
		change(&cfg)
	}
	if err := Stock(t.Context(), cfg.Dir, Level{"a", 1000}); err != nil {
		t.Fatal(err)
	}
	r := start(t, memoryShop, cfg)
	for _, system := range outside.Systems() {
		eventually(t, system+" serves", func() bool {
			_, err := outside.Inspect(t.Context(), cfg.Dir, system)
			return err == nil
		})
	}
	return r
}

// buys places an order of one piece and returns its id.
func (r *running) buys(t *testing.T, key, customer string, amount Cents, pay string) string {
	t.Helper()
	body := orderJSON(t, OrderRequest{CustomerID: customer, Amount: amount, Items: []Item{{"a", 1}}, Pay: pay})
	if status, _, answer := r.post(t, key, body); status != http.StatusCreated {
		t.Fatalf("placing %s: %d %s", key, status, answer)
	}
	return OrderID(key)
}

// shown is what GET /orders/{id} says.
func (r *running) shown(t *testing.T, id string) OrderStatus {
	t.Helper()
	status, body := r.get(t, "/orders/"+id)
	var o OrderStatus
	if err := json.Unmarshal([]byte(body), &o); err != nil || status != http.StatusOK {
		t.Fatalf("shown as %d %s: %v", status, body, err)
	}
	return o
}

// becomes waits until an order is in a state and, unless waiting is empty,
// until it is shown to wait for that.
func (r *running) becomes(t *testing.T, id, status, waiting string) OrderStatus {
	t.Helper()
	var o OrderStatus
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if o = r.shown(t, id); o.Status == status && (waiting == "" && (o.Settled || !lifecycle.Final(status)) || waiting != "" && strings.Contains(o.Waiting, waiting)) {
			return o
		}
		if time.Now().After(deadline) {
			t.Fatalf("order %s is not %s (%s): %+v", id, status, waiting, o)
		}
	}
}

// levels waits until stock and money are as the orders' states demand.
func (r *running) levels(t *testing.T) {
	t.Helper()
	eventually(t, "money and stock right", func() bool {
		ledgers, inventory := r.ledgers(t), r.view.services.named("inventory").db.Reader
		money := ledgers[outside.KindCapture].Cents - ledgers[outside.KindRefund].Cents
		return money == number(t, r.view.orders.db.Reader, sumCompleted) &&
			number(t, inventory, `SELECT SUM(reserved) FROM t_stock`) == 0 &&
			number(t, inventory, `SELECT SUM(sold) FROM t_stock`) == r.with(t, lifecycle.Completed)
	})
	if bad := number(t, r.view.services.named("inventory").db.Reader, wrongStock); bad != 0 {
		t.Errorf("the stock of %d articles is wrong", bad)
	}
}

func TestACustomerWhoPaysLaterIsWaitedFor(t *testing.T) {
	r := stocked(t, nil)
	id := r.buys(t, "k", "c", 2500, PayLater)
	o := r.becomes(t, id, lifecycle.Confirmed, "its customer has until "+time.Now().UTC().Format("2006-"))
	if o.Settled || r.ledgers(t)[outside.KindCapture].Rows != 0 {
		t.Errorf("paid without being asked: %+v", o)
	}
	if open, err := r.view.unsettled(t.Context(), 10); err != nil || len(open) != 1 || open[0].Cause != o.Waiting || open[0].Status != lifecycle.Confirmed {
		t.Errorf("unsettled: %+v, %v", open, err)
	}
	for range 2 {
		if status, _, body := r.wishes(t, id, "pay"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	}
	r.becomes(t, id, lifecycle.Completed, "")
	r.levels(t)
	if n := r.ledgers(t)[outside.KindCapture].Rows; n != 1 {
		t.Errorf("money was taken %d times", n)
	}
}

func TestAnOrderThatIsNotPaidInTimeGivesItsStockBack(t *testing.T) {
	r := stocked(t, func(c *Config) { c.Rules.PaymentWindow = 500 * time.Millisecond })
	id := r.buys(t, "k", "c", 2500, PayLater)
	o := r.becomes(t, id, lifecycle.Cancelled, "")
	if o.Reason != "not paid within 500ms" || o.UpdatedAt.Before(o.PayBy) {
		t.Errorf("cancelled at %v, to be paid by %v: %s", o.UpdatedAt, o.PayBy, o.Reason)
	}
	r.levels(t)
	if ledgers := r.ledgers(t); ledgers[outside.KindCapture].Rows != 0 {
		t.Errorf("money moved: %v", ledgers)
	}
}

func TestAHighRiskOrderIsHeldAndItsCustomerMayGiveUpWaiting(t *testing.T) {
	r := stocked(t, func(c *Config) { c.Rules.ReviewAfter = time.Hour })
	id := r.buys(t, "k", "c", 600_00, PayNow)
	held := r.becomes(t, id, lifecycle.Reserved, "risk holds the order until ")
	_, until, _ := strings.Cut(held.Waiting, "until ")
	if at, err := time.Parse(time.RFC3339, until); err != nil || at.Before(held.CreatedAt.Add(time.Hour-time.Second)) || at.After(time.Now().Add(time.Hour)) {
		t.Errorf("%s: %v", held.Waiting, err)
	}
	if status, _, body := r.wishes(t, id, "cancel"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	r.becomes(t, id, lifecycle.Cancelled, "")
	r.levels(t)
}

func TestAReviewReleasesAnOrderOrEndsIt(t *testing.T) {
	r := stocked(t, nil)
	low, high := r.buys(t, "low", "c", 600_00, PayNow), r.buys(t, "high", "c", 1_500_00, PayNow)
	r.becomes(t, low, lifecycle.Completed, "")
	if o := r.becomes(t, high, lifecycle.Cancelled, ""); !strings.HasPrefix(o.Reason, "not approved by risk: ") {
		t.Errorf("reason %q", o.Reason)
	}
	r.levels(t)
}

func TestADeclinedPaymentEndsTheOrder(t *testing.T) {
	r := stocked(t, nil)
	id := r.buys(t, "k", "declined-1", 2500, PayNow)
	if o := r.becomes(t, id, lifecycle.Cancelled, ""); !strings.HasPrefix(o.Reason, "the payment failed: ") {
		t.Errorf("reason %q", o.Reason)
	}
	r.levels(t)
}

func TestPayingAndCancellingAtOnceLeavesMoneyAndStockRight(t *testing.T) {
	r := stocked(t, func(c *Config) { // lost answers make no dead letters here
		c.Consumer.Retry = settle.Backoff{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 1000}
	})
	if _, err := outside.Misbehave(t.Context(), r.dir, outside.ProviderSystem, outside.Misbehaviour{Mode: outside.ModeLost, Share: 0.3}); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for i := range 40 {
		id := r.buys(t, fmt.Sprint("k", i), "c", 2500, []string{PayNow, PayLater}[i%2])
		for _, what := range []string{"pay", "cancel"} {
			clients.Go(func() {
				if status, _, body := r.wishes(t, id, what); status != 200 && status != 409 {
					t.Errorf("%s: %d %s", what, status, body)
				}
			})
		}
	}
	clients.Wait()
	eventually(t, "all decided", func() bool { return r.with(t, lifecycle.Completed)+r.with(t, lifecycle.Cancelled) == 40 })
	if _, err := outside.Misbehave(t.Context(), r.dir, outside.ProviderSystem, outside.Misbehaviour{Mode: outside.ModeOK}); err != nil {
		t.Fatal(err)
	}
	r.levels(t)
}

func TestACouponThatHangsIsADeadLetterOfACompletedOrderUntilItIsReplayed(t *testing.T) {
	r := stocked(t, func(c *Config) {
		c.Outside.Timeout = 100 * time.Millisecond
		c.Outside.BreakerFailures = 100
	})
	if _, err := outside.Misbehave(t.Context(), r.dir, outside.CouponSystem, outside.Misbehaviour{Mode: outside.ModeHang, Customers: []string{"unlucky"}}); err != nil {
		t.Fatal(err)
	}
	id := r.buys(t, "k", "unlucky", 2500, PayNow)
	o := r.becomes(t, id, lifecycle.Completed, "order.paid is a dead letter at marketing: ")
	if o.Settled {
		t.Errorf("settled: %+v", o)
	}
	if open, err := r.view.unsettled(t.Context(), 10); err != nil || len(open) != 0 {
		t.Errorf("unsettled: %+v, %v", open, err)
	}
	if _, err := outside.Misbehave(t.Context(), r.dir, outside.CouponSystem, outside.Misbehaviour{Mode: outside.ModeOK}); err != nil {
		t.Fatal(err)
	}
	store, _ := r.view.federation.Store("marketing")
	letters, err := store.DeadLetters(t.Context(), govern.Filter{Key: id})
	if err != nil || len(letters) != 1 {
		t.Fatalf("letters %+v: %v", letters, err)
	}
	if _, err := store.Replay(t.Context(), govern.Act{By: "test", Reason: "it answers again"}, govern.ReplayOptions{}, letters[0].ID); err != nil {
		t.Fatal(err)
	}
	r.becomes(t, id, lifecycle.Completed, "")
	if n := r.ledgers(t)[outside.KindCoupon].Rows; n != 1 {
		t.Errorf("%d coupons", n)
	}
}

func TestWhatAPersonHasPausedIsNamedAsTheCause(t *testing.T) {
	for _, c := range []struct{ service, kind, name, want string }{
		{"inventory", "group", "inventory", "order.created was published, inventory has not taken it yet; the group inventory is paused"},
		{"order", "relay", "", "order.created waits to be published; the relay of order is paused"},
		{"risk", "key", "risk/" + OrderID("k"), "; the key of this order is paused at risk"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			r := stocked(t, func(cfg *Config) {
				m, err := openMember(t.Context(), c.service, *cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.db.Governance.Pause(t.Context(), govern.Act{By: "test", Reason: "to look"}, c.kind, c.name); err != nil {
					t.Fatal(err)
				}
				if err := (crowd{m}).close(); err != nil {
					t.Fatal(err)
				}
			})
			id := r.buys(t, "k", "c", 2500, PayNow)
			eventually(t, c.want, func() bool { return strings.Contains(r.shown(t, id).Waiting, c.want) })
		})
	}
}
