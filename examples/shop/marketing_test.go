package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// fakeCoupons is a coupon system with a ledger.
type fakeCoupons struct {
	weather weather
	calls   int
	deaf    bool // says yes to Revoke and does nothing
	value   map[string]Cents
	revoked map[string]bool
}

func newFakeCoupons() *fakeCoupons {
	return &fakeCoupons{value: map[string]Cents{}, revoked: map[string]bool{}}
}

func (c *fakeCoupons) Grant(_ context.Context, orderID, _ string, value Cents) (string, error) {
	c.calls++
	if err := c.weather.away(); err != nil {
		return "", err
	}
	if was, ok := c.value[orderID]; c.revoked[orderID] || (ok && was != value) || value <= 0 {
		return "", settle.Permanent(fmt.Errorf("no coupon of %v for %s", value, orderID))
	}
	c.value[orderID] = value
	if err := c.weather.answer(); err != nil {
		return "", err
	}
	return "coupon-" + orderID, nil
}

func (c *fakeCoupons) Revoke(_ context.Context, orderID string) error {
	c.calls++
	if err := c.weather.away(); err != nil {
		return err
	}
	if !c.deaf {
		c.revoked[orderID] = true
		delete(c.value, orderID)
	}
	return c.weather.answer()
}

// earned is what an amount earns, worked out by hand.
type earned struct{ amount, points, coupon int64 }

func earnings() []earned {
	return []earned{{0, 0, 0}, {99, 0, 0}, {1_00, 1, 0}, {19_99, 19, 0}, {20_00, 20, 2_00}, {20_19, 20, 2_01}, {199_99, 199, 19_99}, {200_00, 200, 20_00}, {9_999_99, 9999, 20_00}}
}

func TestAnAmountEarnsPointsAndACoupon(t *testing.T) {
	rules := Rules{}.withDefaults()
	for _, e := range earnings() {
		amount := Cents(e.amount)
		if p, c := points(amount), rules.coupon(amount); p != e.points || int64(c) != e.coupon {
			t.Errorf("%v earns %d points and a coupon of %v; want %d and %v", amount, p, c, e.points, Cents(e.coupon))
		}
	}
	if c := (Rules{CouponFrom: 1}).coupon(9); c != 0 {
		t.Errorf("an amount of 0.09 earns a coupon of %v", c)
	}
}

// rewardAfter is the state that a reward must be in and the events it must
// have appended: what came first decides, and only a granted one is taken back.
func rewardAfter(done []string) (state string, events []string) {
	if len(done) == 0 {
		return "", nil
	}
	switch {
	case done[0] == lifecycle.OrderCancelled:
		return "BARRED", nil
	case done[0] != lifecycle.OrderPaid:
		return "WAIVED", []string{"marketing.revoked"}
	case slices.Contains(done, lifecycle.OrderCancelled):
		return "REVOKED", []string{"marketing.granted", "marketing.revoked"}
	}
	return "GRANTED", []string{"marketing.granted"}
}

// marketingStage is a marketing service, its coupon system, and an order of
// each amount.
func marketingStage(t *testing.T) (*stage, *marketingService, *fakeCoupons) {
	t.Helper()
	coupons := newFakeCoupons()
	service := newMarketing(baseIn(t, "marketing", outsiders{coupons: coupons}))
	st := &stage{db: service.db, reactions: service.reactions(), weather: &coupons.weather, calls: &coupons.calls}
	for i, e := range earnings() {
		id := fmt.Sprint("o", i)
		st.orders = append(st.orders, orderFacts{OrderID: id, CustomerID: fmt.Sprint("c", i%2), Amount: Cents(e.amount), Items: []Item{{"a", 1}}})
	}
	st.begin = func() { clear(coupons.value); clear(coupons.revoked) }
	st.wrong = func(ctx context.Context, tx *sql.Tx, order orderFacts, done []string) error {
		state, events := rewardAfter(done)
		want := earned{}
		if i := slices.IndexFunc(earnings(), func(e earned) bool { return Cents(e.amount) == order.Amount }); state == "GRANTED" {
			want = earnings()[i]
		}
		return errors.Join(wrongReward(ctx, tx, order, state, want), wrongCoupon(ctx, tx, order, coupons, want), mustHave(ctx, tx, order.OrderID, events...))
	}
	return st, service, coupons
}

// wrongReward compares the reward and the ledger of points with what they must
// be.
func wrongReward(ctx context.Context, tx *sql.Tx, order orderFacts, state string, want earned) error {
	var got string
	var has, booked int64
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(state), ''), COALESCE(SUM(points), 0) FROM t_reward WHERE order_id = $1`, order.OrderID).Scan(&got, &has); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(points), 0) FROM t_points_ledger WHERE order_id = $1 AND customer_id = $2`, order.OrderID, order.CustomerID).Scan(&booked); err != nil {
		return err
	}
	if got != state || has != want.points || booked != want.points {
		return fmt.Errorf("the reward is %q with %d points, %d booked; want %q with %d", got, has, booked, state, want.points)
	}
	return nil
}

// wrongCoupon compares what the coupon system has with what it must have and
// with what the service thinks.
func wrongCoupon(ctx context.Context, tx *sql.Tx, order orderFacts, coupons *fakeCoupons, want earned) error {
	var code string
	if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(coupon), '') FROM t_reward WHERE order_id = $1`, order.OrderID).Scan(&code); err != nil {
		return err
	}
	if stands := coupons.value[order.OrderID]; int64(stands) != want.coupon || (code != "") != (stands > 0) {
		return fmt.Errorf("a coupon of %v stands, and %q is noted; want one of %v", stands, code, Cents(want.coupon))
	}
	return nil
}

func TestPointsAndCouponsAreGrantedOnceAndTakenBackWhateverComes(t *testing.T) {
	st, _, _ := marketingStage(t)
	st.check(t, lifecycle.Reward().Inputs())
}

func TestAWrongRewardIsNoticed(t *testing.T) {
	bugs := map[string]func(*stage, *marketingService, *fakeCoupons){
		"order.paid grants as often as it comes": func(_ *stage, s *marketingService, _ *fakeCoupons) {
			s.rewards.machine = withRow(s.rewards.machine, lifecycle.Transition{From: "GRANTED", On: lifecycle.OrderPaid, To: "GRANTED", Emits: lifecycle.MarketingGranted})
		},
		"order.paid grants although the order is cancelled": func(_ *stage, s *marketingService, _ *fakeCoupons) {
			s.rewards.machine = withRow(s.rewards.machine, lifecycle.Transition{From: "BARRED", On: lifecycle.OrderPaid, To: "GRANTED", Emits: lifecycle.MarketingGranted})
		},
		"the compensation takes back what is granted": func(_ *stage, s *marketingService, _ *fakeCoupons) {
			s.rewards.machine = withRow(s.rewards.machine, lifecycle.Transition{From: "GRANTED", On: lifecycle.Compensation(lifecycle.OrderPaid), To: "REVOKED", Emits: lifecycle.MarketingRevoked})
		},
		"coupons are not revoked": func(_ *stage, _ *marketingService, c *fakeCoupons) { c.deaf = true },
		"another coupon value":    func(_ *stage, s *marketingService, _ *fakeCoupons) { s.rules.CouponFrom++ },
		"points are not taken back": func(st *stage, _ *marketingService, _ *fakeCoupons) {
			st.reactions = instead(st.reactions, lifecycle.OrderCancelled, func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx] {
				return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
					_, err := tx.ExecContext(ctx, `DELETE FROM t_points_ledger WHERE kind = 'REVOKE'`)
					return errors.Join(do(ctx, tx, e), err)
				}
			})
		},
		"a lost answer counts as done": func(st *stage, _ *marketingService, _ *fakeCoupons) {
			st.reactions = instead(st.reactions, lifecycle.OrderPaid, func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx] {
				return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
					_ = do(ctx, tx, e)
					return nil
				}
			})
		},
		"the coupon system is asked each time": func(st *stage, _ *marketingService, c *fakeCoupons) {
			st.reactions = instead(st.reactions, lifecycle.OrderCancelled, func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx] {
				return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
					return errors.Join(do(ctx, tx, e), c.Revoke(ctx, e.AggregateID))
				}
			})
		},
	}
	for name, plant := range bugs {
		t.Run(name, func(t *testing.T) {
			st, service, coupons := marketingStage(t)
			plant(st, service, coupons)
			if err := st.notices(t, lifecycle.Reward().Inputs()); err == nil {
				t.Error("nothing is noticed")
			}
		})
	}
}

func TestTheTableRefusesToGrantPointsTwiceForOneEvent(t *testing.T) {
	_, service, _ := marketingStage(t)
	err := inTx(t.Context(), service.db, func(tx *sql.Tx) error {
		for range 2 {
			if _, err := tx.ExecContext(t.Context(), insertPoints, "e1", "GRANT", "c", "o1", 5, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("got %v", err)
	}
}

func TestARewardIsTakenBackByRulesThatWereChangedSince(t *testing.T) {
	st, service, coupons := marketingStage(t)
	ctx := t.Context()
	id := st.orders[4].OrderID
	e := &settle.Event{ID: settle.NewID(), Type: lifecycle.OrderPaid, AggregateID: id, Payload: []byte(`{"orderId":"` + id + `","customerId":"c0","amount":"20.00","items":[{"sku":"a","quantity":1}]}`)}
	coupons.weather = lost
	run := func(do consumer.Handler[*sql.Tx], e *settle.Event) error {
		return inTx(ctx, service.db, func(tx *sql.Tx) error { return do(ctx, tx, e) })
	}
	if err := run(service.paid, e); err == nil {
		t.Fatal("a lost answer counts as done")
	}
	coupons.weather, service.rules.CouponFrom = fair, 50_00
	if err := run(service.paid, e); err != nil {
		t.Fatal(err)
	}
	if err := run(service.cancelled, &settle.Event{ID: settle.NewID(), Type: lifecycle.OrderCancelled, AggregateID: id}); err != nil {
		t.Fatal(err)
	}
	if stands := coupons.value[id]; stands != 0 {
		t.Errorf("a coupon of %v stands after all", stands)
	}
}

func TestAnOrderThatCannotBeReadEarnsNothingAndIsADeadLetterAtOnce(t *testing.T) {
	_, service, coupons := marketingStage(t)
	e := &settle.Event{ID: settle.NewID(), Type: lifecycle.OrderPaid, AggregateID: "o1", Payload: []byte(`{"orderId":"o1"}`)}
	run := func(do consumer.Handler[*sql.Tx]) error {
		return inTx(t.Context(), service.db, func(tx *sql.Tx) error { return do(t.Context(), tx, e) })
	}
	if err := run(service.paid); !settle.IsPermanent(err) || coupons.calls != 0 {
		t.Errorf("got %v after %d calls", err, coupons.calls)
	}
	for range 2 {
		if err := run(service.giveUp); err != nil {
			t.Fatal(err)
		}
	}
	if coupons.calls != 1 {
		t.Errorf("the compensation, run twice, asked %d times", coupons.calls)
	}
}
