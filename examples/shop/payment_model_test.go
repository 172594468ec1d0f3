package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// paidOrder says what the payment service ought to do for one order, in its
// own words: who may and wants to pay, and what the provider has done.
type paidOrder struct {
	amount Cents
	later  bool // order.confirmed does not say yet that its customer wants to pay

	known, may, wants bool
	over              string // how it ended
	says              []string

	answered, refused, taken, returned, barred bool // at the provider
	calls                                      int
}

// takes lets an event come in; fails says that its handler can't have done it.
func (o *paidOrder) takes(c came) (fails bool) {
	confirms, pays := c.kind == lifecycle.OrderConfirmed && !c.undo, c.kind == lifecycle.OrderPayRequested && !c.undo
	asks := o.over == "" && (confirms && !o.may && (o.wants || !o.later) || pays && o.may)
	cancels := c.kind == lifecycle.OrderCancelled && (o.over == "" || o.over == lifecycle.PaymentCaptured)
	ends := cancels || c.undo && o.over == ""
	if o.amount > 0 && (asks || ends) && !o.calling(asks, c.mood) {
		return true
	}
	switch {
	case asks && o.refused:
		o.end(lifecycle.PaymentDeclined, lifecycle.PaymentFailed)
	case asks:
		o.end(lifecycle.PaymentCaptured, lifecycle.PaymentSucceeded)
	case ends && c.undo:
		o.end(lifecycle.PaymentCancelled, lifecycle.PaymentFailed)
	case ends && (o.returned || o.over != ""):
		o.end(lifecycle.PaymentReturned, lifecycle.PaymentRefunded)
	case ends && o.known:
		o.end(lifecycle.PaymentCancelled, lifecycle.PaymentVoided)
	case ends:
		o.over = lifecycle.PaymentBarred
	case o.over == "" && !o.known:
		o.says = append(o.says, lifecycle.PaymentCreated)
		fallthrough
	case o.over == "":
		o.known, o.may, o.wants = true, o.may || confirms, o.wants || pays
	}
	return false
}

func (o *paidOrder) end(state, event string) { o.over, o.says = state, append(o.says, event) }

// calling asks the provider, and says whether it has answered.
func (o *paidOrder) calling(capture bool, m mood) bool {
	o.calls++
	switch {
	case m == gone:
		return false
	case capture && o.barred:
		o.refused = true
	case capture && !o.answered:
		o.answered, o.refused = true, m == strict
		o.taken = !o.refused
	case !capture:
		o.barred, o.returned = true, o.taken
	}
	return m != mute
}

func (o *paidOrder) state() string {
	switch {
	case o.over != "":
		return o.over
	case o.may:
		return lifecycle.PaymentDue
	case o.wants:
		return lifecycle.PaymentAsked
	case o.known:
		return lifecycle.PaymentOpen
	}
	return lifecycle.None
}

// paymentStory is a list of events coming in at the payment service.
type paymentStory struct {
	*paymentService
	provider *fakeProvider
	tx       *sql.Tx
	orders   []*paidOrder
	failed   []arrival // not done yet, nor done since
}

// arrival is an event of one of the orders.
type arrival struct {
	order int
	came
}

// arrivals draws what may come in at the payment service: in any order,
// repeated, while the provider is in any mood.
func arrivals(s *paymentService, orders int) *rapid.Generator[[]arrival] {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) arrival {
		r := rapid.SampledFrom(s.reactions()).Draw(rt, "event")
		return arrival{rapid.IntRange(0, orders-1).Draw(rt, "order"), came{
			kind: r.on, undo: r.undo != nil && rapid.IntRange(0, 4).Draw(rt, "undo") == 0,
			mood: rapid.SampledFrom([]mood{willing, willing, strict, mute, gone}).Draw(rt, "mood"),
		}}
	}), 15, 30)
}

func paidOrders() []*paidOrder {
	return []*paidOrder{{amount: 500}, {amount: 700, later: true}, {amount: 0}, {amount: 0, later: true}}
}

// runPayments lets events come in and compares service and provider with the
// model after each. What failed comes again at last, to a willing provider. It
// leaves nothing in the database.
func runPayments(ctx context.Context, s *paymentService, p *fakeProvider, events []arrival) ([]*paidOrder, error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	story := &paymentStory{paymentService: s, provider: p, tx: tx, orders: paidOrders()}
	s.outside.provider = p
	for _, a := range events {
		if err := story.arrives(ctx, a); err != nil {
			return nil, fmt.Errorf("%+v: %w", a, err)
		}
	}
	for len(story.failed) > 0 {
		a := story.failed[0]
		a.mood = willing
		if err := story.arrives(ctx, a); err != nil {
			return nil, fmt.Errorf("again %+v: %w", a, err)
		}
	}
	return story.orders, nil
}

// arrives passes an event to its handler, in something like the transaction
// that a consumer gives it.
func (s *paymentStory) arrives(ctx context.Context, a arrival) error {
	o, id := s.orders[a.order], fmt.Sprint("o", a.order)
	pay := PayNow
	if o.later && a.kind != lifecycle.OrderPayRequested {
		pay = PayLater
	}
	e, err := paymentEvent(a.kind, id, o.amount, pay)
	if err != nil {
		return err
	}
	if _, err := s.tx.ExecContext(ctx, `SAVEPOINT event`); err != nil {
		return err
	}
	s.provider.mood = a.mood
	failure, end := handled(ctx, s, s.tx, e, a.undo), `RELEASE event`
	s.failed = slices.DeleteFunc(s.failed, func(f arrival) bool { return f.order == a.order && f.kind == a.kind && f.undo == a.undo })
	if failure != nil {
		s.failed, end = append(s.failed, a), `ROLLBACK TO event`
	}
	if _, err := s.tx.ExecContext(ctx, end); err != nil {
		return err
	}
	if fails := o.takes(a.came); fails != (failure != nil) {
		return fmt.Errorf("it failed with %v; want a failure: %v", failure, fails)
	}
	return s.check(ctx, a.order)
}

// check compares an order's row and events, and the provider's ledger, with
// the model, and the money with the state wherever nothing is left undone.
func (s *paymentStory) check(ctx context.Context, order int) error {
	o, id := s.orders[order], fmt.Sprint("o", order)
	var state, declined string
	var amount Cents
	err := s.tx.QueryRowContext(ctx, `SELECT state, amount_cents, declined FROM t_payment WHERE order_id = $1`, id).Scan(&state, &amount, &declined)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if state != o.state() || (err == nil && amount != o.amount) || (declined != "") != (state == lifecycle.PaymentDeclined) {
		return fmt.Errorf("it is %q with %v, declined %q; want %q", state, amount, declined, o.state())
	}
	calls := 0
	for _, o := range s.orders {
		calls += o.calls
	}
	if calls != s.provider.calls {
		return fmt.Errorf("the provider was called %d times; want %d", s.provider.calls, calls)
	}
	var taken, net Cents
	if o.taken {
		taken, net = o.amount, o.amount
	}
	if o.returned {
		net = 0
	}
	if s.provider.taken(id) != taken || s.provider.net(id) != net {
		return fmt.Errorf("the provider took %v and has %v; want %v and %v", s.provider.taken(id), s.provider.net(id), taken, net)
	}
	undone := slices.ContainsFunc(s.failed, func(f arrival) bool { return f.order == order })
	if paid := state == lifecycle.PaymentCaptured; !undone && o.amount > 0 && paid != (s.provider.net(id) == o.amount) {
		return fmt.Errorf("it is %s while the provider has %v", state, s.provider.net(id))
	}
	return checkSays(ctx, s.tx, id, o.says)
}

func TestMoneyIsRightWhateverOrderEventsComeInAndHoweverTheProviderAnswers(t *testing.T) {
	s, _ := paymentIn(t, t.TempDir())
	said := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		orders, err := runPayments(t.Context(), s, newProvider(), arrivals(s, len(paidOrders())).Draw(rt, "events"))
		if err != nil {
			rt.Fatal(err)
		}
		for _, o := range orders {
			said[strings.Join(o.says, ",")]++
		}
	})
	for _, story := range []string{
		"payment.created,payment.succeeded", "payment.created,payment.succeeded,payment.refunded", "payment.created,payment.failed",
		"payment.created,payment.voided",
	} {
		if said[story] == 0 {
			t.Errorf("no order went %s: the test shows too little", story)
		}
	}
}

func TestThePaymentModelNoticesEachWrongTableAndEachWrongProvider(t *testing.T) {
	giveUp := lifecycle.Compensation(lifecycle.OrderConfirmed)
	for name, planted := range map[string]struct {
		row            lifecycle.Transition
		forgets, stale bool
	}{
		"late money stays":                          {row: lifecycle.Transition{From: lifecycle.PaymentCaptured, On: lifecycle.OrderCancelled, To: lifecycle.PaymentCaptured}},
		"an early cancel keeps money":               {row: lifecycle.Transition{From: lifecycle.None, On: lifecycle.OrderCancelled, When: lifecycle.MoneyReturned, To: lifecycle.PaymentBarred}},
		"a wish to pay is forgotten":                {row: lifecycle.Transition{From: lifecycle.PaymentDue, On: lifecycle.OrderPayRequested, When: lifecycle.Taken, To: lifecycle.PaymentDue}},
		"a repeat takes again":                      {row: lifecycle.Transition{From: lifecycle.PaymentReturned, On: lifecycle.OrderConfirmed, To: lifecycle.PaymentCaptured, Emits: lifecycle.PaymentSucceeded}},
		"giving up takes money back":                {row: lifecycle.Transition{From: lifecycle.PaymentCaptured, On: giveUp, To: lifecycle.PaymentCancelled, Emits: lifecycle.PaymentFailed}},
		"giving up asks nobody":                     {row: lifecycle.Transition{From: lifecycle.PaymentOpen, On: giveUp, To: lifecycle.PaymentBarred, Emits: lifecycle.PaymentFailed}},
		"the provider takes twice":                  {forgets: true},
		"the provider says taken what it gave back": {stale: true},
	} {
		s, _ := paymentIn(t, t.TempDir())
		s.payments.machine = withRow(lifecycle.Payment(), planted.row)
		found := false
		for seed := 0; seed < 300 && !found; seed++ {
			p := newProvider()
			p.forgets, p.stale = planted.forgets, planted.stale
			_, err := runPayments(t.Context(), s, p, arrivals(s, len(paidOrders())).Example(seed))
			found = err != nil
		}
		if !found {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}
