package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

func ordersIn(t testing.TB) *orderService {
	t.Helper()
	return memberIn(t, t.TempDir(), "order").(*orderService)
}

// take lets an order take an input of its machine in tx, as an event that
// comes from the broker or as a customer's wish.
func (s *orderService) take(ctx context.Context, tx *sql.Tx, orderID, input, reason string) error {
	if !lifecycle.IsEvent(input) {
		events, err := (&wish{orderID: orderID, input: input}).apply(ctx, tx, s)
		if err != nil {
			return err
		}
		return s.db.Append(ctx, tx, events...)
	}
	payload, err := json.Marshal(map[string]string{"orderId": orderID, "reason": reason})
	if err != nil {
		return err
	}
	return handled(ctx, s, tx, &settle.Event{ID: settle.NewID(), Type: input, AggregateID: orderID, Payload: payload}, false)
}

// placeIn places an order without the entry.
func (s *orderService) placeIn(ctx context.Context, tx *sql.Tx, key, pay string) error {
	r := OrderRequest{CustomerID: "c", Amount: 1177, Items: []Item{{"a", 1}, {"b", 2}}, Pay: pay}
	events, err := (&placement{key: key, request: r, hash: r.hash(), traceID: "trace"}).apply(ctx, tx, s)
	if err != nil {
		return err
	}
	return s.db.Append(ctx, tx, events...)
}

// story is an order after some inputs, as it is stored.
type story struct {
	OrderStatus
	events   []string // of the order, without its timer
	payloads []orderFacts
}

func (s story) last() orderFacts { return s.payloads[len(s.payloads)-1] }

// tell places an order and lets it take inputs, all in transactions that are
// kept.
func tell(t testing.TB, s *orderService, key, pay string, inputs ...string) story {
	t.Helper()
	err := inTx(t.Context(), s.db, func(tx *sql.Tx) error {
		if err := s.placeIn(t.Context(), tx, key, pay); err != nil {
			return err
		}
		for _, input := range inputs {
			if err := s.take(t.Context(), tx, OrderID(key), input, "for a test"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.status(t.Context(), OrderID(key))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.db.Reader.QueryContext(t.Context(), orderEvents, OrderID(key))
	if err != nil {
		t.Fatal(err)
	}
	told, err := readStory(rows)
	if err != nil {
		t.Fatal(err)
	}
	told.OrderStatus = o
	return told
}

const orderEvents = `SELECT event_type, payload FROM t_outbox_event WHERE aggregate_type = 'order' AND aggregate_id = $1 ORDER BY aggregate_seq`

func readStory(rows *sql.Rows) (told story, err error) {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind string
		var payload []byte
		var facts orderFacts
		if err := rows.Scan(&kind, &payload); err != nil {
			return told, err
		}
		if err := json.Unmarshal(payload, &facts); err != nil {
			return told, err
		}
		told.events, told.payloads = append(told.events, kind), append(told.payloads, facts)
	}
	return told, rows.Err()
}

// statusOf is what an event of an order says of its state; pay_requested says
// nothing.
func statusOf(event string) string {
	return map[string]string{
		lifecycle.OrderCreated: lifecycle.Created, lifecycle.OrderReserved: lifecycle.Reserved, lifecycle.OrderApproved: lifecycle.Approved,
		lifecycle.OrderConfirmed: lifecycle.Confirmed, lifecycle.OrderPaid: lifecycle.Paid,
		lifecycle.OrderCompleted: lifecycle.Completed, lifecycle.OrderCancelled: lifecycle.Cancelled,
	}[event]
}

// wrongStory says what of an order does not agree with its events.
func wrongStory(ctx context.Context, tx *sql.Tx, id string) error {
	var status, reason, pay string
	var version int
	err := tx.QueryRowContext(ctx, `SELECT status, reason, pay, version FROM t_order WHERE order_id = $1`, id).Scan(&status, &reason, &pay, &version)
	if err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, orderEvents, id)
	if err != nil {
		return err
	}
	told, err := readStory(rows)
	if err != nil {
		return err
	}
	said := ""
	for i, kind := range told.events {
		f := told.payloads[i]
		switch {
		case lifecycle.Final(said):
			return fmt.Errorf("%s after %s", kind, said)
		case len(f.Items) != 2 || f.Amount != 1177 || f.OrderID != id:
			return fmt.Errorf("%s tells of %+v", kind, f)
		case (f.Reason != "") != (kind == lifecycle.OrderCancelled):
			return fmt.Errorf("%s with reason %q", kind, f.Reason)
		}
		if s := statusOf(kind); s != "" {
			said = s
		}
	}
	last := told.last()
	if len(told.events) != version || said != status || last.Reason != reason || last.Pay != pay {
		return fmt.Errorf("a row of status %s, reason %q, pay %s and version %d beside events %v, the last with %+v", status, reason, pay, version, told.events, last)
	}
	return nil
}

func TestAnOrderAgreesWithItsEventsWhateverHappensToIt(t *testing.T) {
	s := ordersIn(t)
	ended := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		tx, err := s.db.Begin(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := s.placeIn(t.Context(), tx, "k", rapid.SampledFrom([]string{PayNow, PayLater}).Draw(rt, "pay")); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(rt, "inputs") {
			if err := s.take(t.Context(), tx, OrderID("k"), rapid.SampledFrom(lifecycle.Order().Inputs()).Draw(rt, "input"), "so"); err != nil {
				rt.Fatal(err)
			}
			if err := wrongStory(t.Context(), tx, OrderID("k")); err != nil {
				rt.Fatal(err)
			}
		}
		var status string
		if err := tx.QueryRowContext(t.Context(), `SELECT status FROM t_order`).Scan(&status); err != nil {
			rt.Fatal(err)
		}
		ended[status]++
	})
	if ended[lifecycle.Completed] == 0 || ended[lifecycle.Cancelled] == 0 {
		t.Errorf("the orders ended as %v: the test shows little", ended)
	}
}

func TestAnOrderThatDisagreesWithItsEventsIsNoticed(t *testing.T) {
	s := ordersIn(t)
	for i, plant := range []string{
		`UPDATE t_order SET version = version + 1`,
		`UPDATE t_order SET status = 'PAID'`,
		`UPDATE t_order SET pay = 'later'`,
		`UPDATE t_order SET status = 'CANCELLED', reason = 'x'`,
		`DELETE FROM t_outbox_event WHERE event_type = 'order.reserved'`,
		`UPDATE t_outbox_event SET payload = replace(payload, '"11.77"', '"11.78"')`,
	} {
		err := inTx(t.Context(), s.db, func(tx *sql.Tx) error {
			err := errors.Join(s.placeIn(t.Context(), tx, "k", PayNow), s.take(t.Context(), tx, OrderID("k"), lifecycle.InventoryReserved, ""))
			if err == nil {
				err = wrongStory(t.Context(), tx, OrderID("k"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), plant); err != nil {
				t.Fatal(err)
			}
			return wrongStory(t.Context(), tx, OrderID("k"))
		})
		if err == nil {
			t.Errorf("plant %d is not noticed", i)
		}
	}
}

func TestBothOrdersOfARaceEndAsTheyMust(t *testing.T) {
	const (
		reserved, failed     = lifecycle.InventoryReserved, lifecycle.InventoryReserveFailed
		approved             = lifecycle.RiskApproved
		paid, declined       = lifecycle.PaymentSucceeded, lifecycle.PaymentFailed
		due                  = lifecycle.OrderPaymentDue
		pays, cancels        = lifecycle.CustomerPays, lifecycle.CustomerCancels
		shipped, notShipped  = lifecycle.FulfilmentShipped, lifecycle.FulfilmentFailed
		customer, late       = "cancelled by the customer", "not paid within 15m0s"
		stock, money, parcel = "no stock was reserved: for a test", "the payment failed: for a test", "could not be shipped: for a test"
	)
	s := ordersIn(t)
	for i, c := range []struct {
		before      []string
		a, b        string
		after       string // what an order is after a, then b
		reason      string
		afterOther  string // after b, then a
		otherReason string
	}{
		// The money came before the customer's change of mind: it is paid.
		{[]string{reserved, approved}, paid, cancels, lifecycle.Paid, "", lifecycle.Cancelled, customer},
		{[]string{reserved, approved}, pays, cancels, lifecycle.Cancelled, customer, lifecycle.Cancelled, customer},
		{nil, cancels, reserved, lifecycle.Cancelled, customer, lifecycle.Cancelled, customer},
		{nil, cancels, failed, lifecycle.Cancelled, customer, lifecycle.Cancelled, stock},
		{[]string{reserved, approved}, due, paid, lifecycle.Cancelled, late, lifecycle.Paid, ""},
		{[]string{reserved, approved}, due, pays, lifecycle.Cancelled, late, lifecycle.Cancelled, late},
		{[]string{reserved, approved}, due, cancels, lifecycle.Cancelled, late, lifecycle.Cancelled, customer},
		{[]string{reserved, approved}, declined, cancels, lifecycle.Cancelled, money, lifecycle.Cancelled, customer},
		{nil, reserved, approved, lifecycle.Confirmed, "", lifecycle.Confirmed, ""},
		{[]string{reserved, approved, paid}, shipped, cancels, lifecycle.Completed, "", lifecycle.Completed, ""},
		{[]string{reserved, approved, paid}, notShipped, due, lifecycle.Cancelled, parcel, lifecycle.Cancelled, parcel},
	} {
		for n, order := range [][]string{{c.a, c.b}, {c.b, c.a}} {
			want := []string{c.after, c.afterOther}[n]
			reason := []string{c.reason, c.otherReason}[n]
			got := tell(t, s, fmt.Sprintf("k%d-%d", i, n), PayLater, append(slices.Clone(c.before), order...)...)
			if got.Status != want || got.Reason != reason || got.last().Reason != reason {
				t.Errorf("after %v then %v: %s (%s), event %+v; want %s (%s)", c.before, order, got.Status, got.Reason, got.last(), want, reason)
			}
			if kinds := slices.Compact(slices.Sorted(slices.Values(got.events))); len(kinds) != len(got.events) {
				t.Errorf("after %v then %v the others were told %v", c.before, order, got.events)
			}
		}
	}
}

func TestLateAndRepeatedInputsChangeNothing(t *testing.T) {
	s := ordersIn(t)
	whole := []string{lifecycle.InventoryReserved, lifecycle.RiskApproved, lifecycle.PaymentSucceeded, lifecycle.FulfilmentShipped}
	for i, inputs := range [][]string{whole, {lifecycle.InventoryReserveFailed}} {
		before := tell(t, s, fmt.Sprint("before", i), PayNow, inputs...)
		after := tell(t, s, fmt.Sprint("after", i), PayNow, slices.Concat(inputs, lifecycle.Order().Inputs(), inputs)...)
		if !lifecycle.Final(before.Status) || after.Status != before.Status || !slices.Equal(after.events, before.events) || after.Reason != before.Reason {
			t.Errorf("%s with %v became %s with %v", before.Status, before.events, after.Status, after.events)
		}
	}
	var twice []string
	for _, input := range whole {
		twice = append(twice, input, input)
	}
	if once, again := tell(t, s, "once", PayNow, whole...), tell(t, s, "twice", PayNow, twice...); !slices.Equal(once.events, again.events) {
		t.Errorf("each event twice gives %v; once gives %v", again.events, once.events)
	}
}

func TestEveryEventTellsWhetherItsCustomerWantsToPay(t *testing.T) {
	s := ordersIn(t)
	got := tell(t, s, "k", PayLater, lifecycle.InventoryReserved, lifecycle.CustomerPays, lifecycle.CustomerPays, lifecycle.RiskApproved)
	want := []string{lifecycle.OrderCreated, lifecycle.OrderReserved, lifecycle.OrderPayRequested, lifecycle.OrderConfirmed}
	if !slices.Equal(got.events, want) || got.Pay != PayNow || got.Status != lifecycle.Confirmed {
		t.Fatalf("%v, pay %s, %s", got.events, got.Pay, got.Status)
	}
	for i, pay := range []string{PayLater, PayLater, PayNow, PayNow} {
		if got.payloads[i].Pay != pay {
			t.Errorf("%s says pay %s", got.events[i], got.payloads[i].Pay)
		}
	}
}

func TestACancelledOrderSaysWhy(t *testing.T) {
	s := ordersIn(t)
	for input, want := range map[string]string{
		lifecycle.InventoryReserveFailed: "no stock was reserved: for a test",
		lifecycle.RiskRejected:           "not approved by risk: for a test",
		lifecycle.OrderPaymentDue:        "not paid within 15m0s",
		lifecycle.CustomerCancels:        "cancelled by the customer",
		lifecycle.PaymentFailed:          "the payment failed: for a test",
		lifecycle.FulfilmentFailed:       "could not be shipped: for a test",
	} {
		if got := tell(t, s, input, PayNow, input); got.Reason != want || got.last().Reason != want {
			t.Errorf("%s: %q, and the event says %q; want %q", input, got.Reason, got.last().Reason, want)
		}
	}
	if why := (orderRow{}).whyCancelled(cause{input: lifecycle.RiskRejected}); why != "not approved by risk" {
		t.Errorf("without a reason: %q", why)
	}
	if why := (orderRow{}).whyCancelled(cause{input: lifecycle.PaymentFailed, reason: strings.Repeat("ä", 5000)}); len(why) > 1000 {
		t.Errorf("a reason of %d bytes", len(why))
	}
}

func TestAnEventOfAnOrderThatIsNotKnownIsTriedAgain(t *testing.T) {
	s := ordersIn(t)
	for _, input := range lifecycle.Order().Inputs() {
		if !lifecycle.IsEvent(input) {
			continue
		}
		err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return s.take(t.Context(), tx, "o-none", input, "") })
		if err == nil || settle.IsPermanent(err) || settle.IsUnavailable(err) || !strings.Contains(err.Error(), "order o-none: no such order") {
			t.Errorf("%s: %v; want an error that is retried", input, err)
		}
	}
}

func TestAnAnswerThatCannotBeReadIsADeadLetterAtOnce(t *testing.T) {
	s := ordersIn(t)
	for _, payload := range []string{``, `[]`, `{"reason":1}`, `{"reason":`} {
		e := &settle.Event{ID: settle.NewID(), Type: lifecycle.RiskRejected, AggregateID: "o", Payload: []byte(payload)}
		err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return s.heard(t.Context(), tx, e) })
		if !settle.IsPermanent(err) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestAChangeNamesTheEventThatCausedItAndKeepsItsTrace(t *testing.T) {
	s := ordersIn(t)
	tell(t, s, "k", PayLater, lifecycle.CustomerPays)
	e := &settle.Event{ID: settle.NewID(), Type: lifecycle.InventoryReserved, AggregateID: OrderID("k"), TraceID: "another", Payload: []byte(`{}`)}
	if err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return s.heard(t.Context(), tx, e) }); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{lifecycle.OrderCreated: "", lifecycle.OrderPayRequested: "", lifecycle.OrderReserved: e.ID} {
		var cause, trace string
		err := s.db.Reader.QueryRow(`SELECT coalesce(causation_id, ''), trace_id FROM t_outbox_event WHERE event_type = $1`, kind).Scan(&cause, &trace)
		if err != nil || cause != want || trace != "trace" {
			t.Errorf("%s is caused by %q in trace %s: %v; want %q", kind, cause, trace, err, want)
		}
	}
}

func TestTheTimerOfAPaymentIsStoredWithItsOrder(t *testing.T) {
	s := ordersIn(t)
	o := tell(t, s, "k", PayLater)
	var aggregate, key string
	var seq, notBefore int64
	err := s.db.Reader.QueryRow(`SELECT aggregate_type, aggregate_id, aggregate_seq, not_before FROM t_outbox_event WHERE event_type = $1`, lifecycle.OrderPaymentDue).
		Scan(&aggregate, &key, &seq, &notBefore)
	if err != nil || aggregate != lifecycle.OrderTimer || key != o.OrderID || seq != 0 || notBefore != o.PayBy.UnixMicro() {
		t.Errorf("a timer of %s %s with seq %d for %d: %v", aggregate, key, seq, notBefore, err)
	}
	if window := o.PayBy.Sub(o.CreatedAt); window != s.rules.PaymentWindow {
		t.Errorf("it may be paid for %v", window)
	}
}
