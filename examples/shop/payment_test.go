package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// How a provider takes a call.
type mood string

const (
	willing mood = "is willing"
	strict  mood = "declines"
	mute    mood = "does its work and loses the answer"
	gone    mood = "is away"
)

// fakeProvider is a payment provider that keeps a ledger. What it did once for
// an order it does not do again.
type fakeProvider struct {
	mood   mood
	ledger []posted
	barred map[string]bool
	no     map[string]string // why it declined, by order
	calls  int
	// Planted bugs: it does everything again; it says taken what it gave back.
	forgets, stale bool
}

// posted is money that moved: from a customer, or back if negative.
type posted struct {
	orderID string
	amount  Cents
}

func newProvider() *fakeProvider {
	return &fakeProvider{mood: willing, barred: map[string]bool{}, no: map[string]string{}}
}

func (p *fakeProvider) Capture(_ context.Context, orderID, customerID string, amount Cents) (string, error) {
	p.calls++
	if amount <= 0 || customerID != "c" {
		return "", settle.Permanent(fmt.Errorf("capture %v of %s", amount, customerID))
	}
	if p.mood == gone {
		return "", settle.Unavailable(errors.New("nobody answers"))
	}
	known := p.no[orderID] != "" || slices.Contains(p.ledger, posted{orderID, amount})
	if p.barred[orderID] && !(known && p.stale) {
		p.no[orderID] = "voided before"
	} else if !known || p.forgets {
		switch p.mood {
		case strict:
			p.no[orderID] = "no cover"
		default:
			p.ledger = append(p.ledger, posted{orderID, amount})
		}
	}
	if p.mood == mute {
		return "", errors.New("connection reset")
	}
	return p.no[orderID], nil
}

func (p *fakeProvider) Void(_ context.Context, orderID string) (bool, error) {
	p.calls++
	if p.mood == gone {
		return false, settle.Unavailable(errors.New("nobody answers"))
	}
	p.barred[orderID] = true
	if net := p.net(orderID); net != 0 {
		p.ledger = append(p.ledger, posted{orderID, -net})
	}
	if p.mood == mute {
		return false, errors.New("connection reset")
	}
	return p.taken(orderID) > 0, nil
}

// net is what the provider holds for an order, taken what it ever took.
func (p *fakeProvider) net(orderID string) (net Cents) {
	for _, e := range p.ledger {
		if e.orderID == orderID {
			net += e.amount
		}
	}
	return net
}

func (p *fakeProvider) taken(orderID string) (taken Cents) {
	for _, e := range p.ledger {
		if e.orderID == orderID {
			taken += max(e.amount, 0)
		}
	}
	return taken
}

// paymentIn opens the payment service in dir with a provider.
func paymentIn(t testing.TB, dir string) (*paymentService, *fakeProvider) {
	t.Helper()
	s, p := memberIn(t, dir, "payment").(*paymentService), newProvider()
	s.outside.provider = p
	return s, p
}

// paymentEvent is an event of an order, as the payment service gets it.
func paymentEvent(kind, orderID string, amount Cents, pay string) (*settle.Event, error) {
	reason := ""
	if kind == lifecycle.OrderCancelled {
		reason = "changed their mind"
	}
	e, err := orderEvent(kind, 1, "trace", "", orderFacts{OrderID: orderID, CustomerID: "c", Amount: amount, Items: []Item{{"a", 1}}, Pay: pay, Reason: reason})
	if err == nil {
		e.ID = settle.NewID()
	}
	return e, err
}

// handle passes an event of order o to its handler, or to what undoes it, in a
// transaction of its own.
func (s *paymentService) handle(t testing.TB, kind string, amount Cents, pay string, undo bool) error {
	t.Helper()
	e, err := paymentEvent(kind, "o", amount, pay)
	if err != nil {
		t.Fatal(err)
	}
	return inTx(t.Context(), s.db, func(tx *sql.Tx) error { return handled(t.Context(), s, tx, e, undo) })
}

// state is what the table says of order o.
func (s *paymentService) state(t testing.TB) (state string) {
	t.Helper()
	err := s.db.Reader.QueryRowContext(t.Context(), `SELECT state FROM t_payment WHERE order_id = 'o'`).Scan(&state)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return state
}

// lastEvent is the last event of order o and its payload.
func (s *paymentService) lastEvent(t testing.TB) string {
	t.Helper()
	var said string
	err := s.db.Reader.QueryRowContext(t.Context(), `SELECT event_type || ' ' || payload FROM t_outbox_event WHERE aggregate_id = 'o' ORDER BY aggregate_seq DESC`).Scan(&said)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// came is one event in the story of a payment.
type came struct {
	kind, pay string
	mood      mood
	undo      bool
}

// waysTo are stories that end in each state.
func waysTo() map[string][]came {
	created := came{kind: lifecycle.OrderCreated, pay: PayNow, mood: willing}
	confirmed := came{kind: lifecycle.OrderConfirmed, pay: PayNow, mood: willing}
	refused := came{kind: lifecycle.OrderConfirmed, pay: PayNow, mood: strict}
	later := came{kind: lifecycle.OrderConfirmed, pay: PayLater, mood: willing}
	asked := came{kind: lifecycle.OrderPayRequested, pay: PayNow, mood: willing}
	cancelled := came{kind: lifecycle.OrderCancelled, pay: PayNow, mood: willing}
	return map[string][]came{
		lifecycle.None:             {},
		lifecycle.PaymentOpen:      {created},
		lifecycle.PaymentAsked:     {asked},
		lifecycle.PaymentDue:       {created, later},
		lifecycle.PaymentCaptured:  {created, confirmed},
		lifecycle.PaymentDeclined:  {created, refused},
		lifecycle.PaymentCancelled: {created, cancelled},
		lifecycle.PaymentReturned:  {created, confirmed, cancelled},
		lifecycle.PaymentBarred:    {cancelled},
	}
}

// paymentAt opens a payment service that has lived through a story.
func paymentAt(t *testing.T, story []came, amount Cents) (*paymentService, *fakeProvider) {
	t.Helper()
	s, p := paymentIn(t, t.TempDir())
	for _, c := range story {
		p.mood = c.mood
		if err := s.handle(t, c.kind, amount, c.pay, c.undo); err != nil {
			t.Fatal(err)
		}
	}
	p.mood = willing
	return s, p
}

func TestGivingUpAPaymentTwiceIsGivingUpOnceAndNothingOnceItHasMovedOn(t *testing.T) {
	for state, story := range waysTo() {
		for _, kind := range []string{lifecycle.OrderConfirmed, lifecycle.OrderPayRequested} {
			s, p := paymentAt(t, story, 500)
			if got := s.state(t); got != state {
				t.Fatalf("the way to %q ends in %q", state, got)
			}
			want := state
			waits := slices.Contains([]string{lifecycle.None, lifecycle.PaymentOpen, lifecycle.PaymentAsked, lifecycle.PaymentDue}, state)
			calls, said, net := p.calls, number(t, s.db.Reader, `SELECT COUNT(*) FROM t_outbox_event`), p.net("o")
			for range 2 {
				if err := s.handle(t, kind, 500, PayNow, true); err != nil {
					t.Fatal(err)
				}
			}
			if waits {
				calls, said, want = calls+1, said+1, lifecycle.PaymentCancelled
				if got, want := s.lastEvent(t), `payment.failed {"orderId":"o","amount":"5.00","reason":"taking the money was given up"}`; got != want {
					t.Errorf("it said %s; want %s", got, want)
				}
			}
			if got := s.state(t); got != want || p.calls != calls || p.net("o") != net || number(t, s.db.Reader, `SELECT COUNT(*) FROM t_outbox_event`) != said {
				t.Errorf("giving up %s left it %q after %d calls with %v; want %q, %d, %v", kind, got, p.calls, p.net("o"), want, calls, net)
			}
		}
	}
}

func TestWhatWasTakenWithoutAnAnswerGoesBackWhenThePaymentIsGivenUpOrCancelled(t *testing.T) {
	for _, c := range []struct {
		end         came
		state, says string
	}{
		{came{kind: lifecycle.OrderConfirmed, undo: true}, lifecycle.PaymentCancelled, `payment.failed {"orderId":"o","amount":"5.00","reason":"taking the money was given up"}`},
		{came{kind: lifecycle.OrderCancelled}, lifecycle.PaymentReturned, `payment.refunded {"orderId":"o","amount":"5.00","reason":"changed their mind"}`},
	} {
		for _, story := range [][]came{{}, waysTo()[lifecycle.PaymentOpen]} {
			s, p := paymentAt(t, story, 500)
			p.mood = mute
			if err := s.handle(t, lifecycle.OrderConfirmed, 500, PayNow, false); err == nil || settle.IsUnavailable(err) || settle.IsPermanent(err) {
				t.Fatalf("got %v; want an error that is retried", err)
			}
			if s.state(t) == lifecycle.PaymentCaptured || p.net("o") != 500 {
				t.Fatalf("%q with %v at the provider", s.state(t), p.net("o"))
			}
			p.mood = willing
			if err := s.handle(t, c.end.kind, 500, PayNow, c.end.undo); err != nil {
				t.Fatal(err)
			}
			if s.state(t) != c.state || p.net("o") != 0 || s.lastEvent(t) != c.says {
				t.Errorf("%q with %v at the provider, saying %s", s.state(t), p.net("o"), s.lastEvent(t))
			}
		}
	}
}

func TestAProviderThatFailsInTheMiddleLeavesNothingAndTheRepeatTakesTheMoneyOnce(t *testing.T) {
	for _, mood := range []mood{mute, gone} {
		for _, state := range []string{lifecycle.None, lifecycle.PaymentOpen, lifecycle.PaymentAsked} {
			s, p := paymentAt(t, waysTo()[state], 500)
			count := `SELECT COUNT(*) FROM t_outbox_event`
			before := number(t, s.db.Reader, count)
			p.mood = mood
			err := s.handle(t, lifecycle.OrderConfirmed, 500, PayNow, false)
			if err == nil || settle.IsUnavailable(err) != (mood == gone) {
				t.Fatalf("%s: got %v", mood, err)
			}
			if s.state(t) != state || number(t, s.db.Reader, count) != before {
				t.Errorf("%s: it is %q and has said something", mood, s.state(t))
			}
			p.mood = willing
			if err := s.handle(t, lifecycle.OrderConfirmed, 500, PayNow, false); err != nil {
				t.Fatal(err)
			}
			if s.state(t) != lifecycle.PaymentCaptured || p.net("o") != 500 || len(p.ledger) != 1 {
				t.Errorf("%s: it is %q; ledger %v", mood, s.state(t), p.ledger)
			}
		}
	}
}

func TestAnOrderOfAmountZeroIsPaidAndCancelledWithoutTheProvider(t *testing.T) {
	for state, story := range waysTo() {
		if state == lifecycle.PaymentDeclined {
			continue
		}
		s, p := paymentAt(t, story, 0)
		if got := s.state(t); got != state || p.calls != 0 {
			t.Errorf("got %q after %d calls; want %q after none", got, p.calls, state)
		}
	}
}

func TestADeclinedPaymentSaysWhyAndKeepsTheReason(t *testing.T) {
	s, _ := paymentAt(t, waysTo()[lifecycle.PaymentDeclined], 500)
	if got, want := s.lastEvent(t), `payment.failed {"orderId":"o","amount":"5.00","reason":"no cover"}`; got != want {
		t.Errorf("it said %s; want %s", got, want)
	}
	if n := number(t, s.db.Reader, `SELECT COUNT(*) FROM t_payment WHERE declined = 'no cover' AND amount_cents = 500`); n != 1 {
		t.Error("reason and amount are not kept")
	}
}

func TestAPaymentWhosePayloadCannotBeReadIsADeadLetterAtOnce(t *testing.T) {
	s, p := paymentIn(t, t.TempDir())
	for _, r := range s.reactions() {
		for _, payload := range []string{`{}`, `[]`, `{"amount":5}`, `{"amount":"-5.00","items":[{"sku":"a","quantity":1}]}`} {
			for _, undo := range []bool{false, r.undo != nil} {
				e := &settle.Event{ID: settle.NewID(), Type: r.on, AggregateID: "o", Payload: []byte(payload)}
				err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return handled(t.Context(), s, tx, e, undo) })
				if !settle.IsPermanent(err) {
					t.Errorf("%s with %s: got %v", r.on, payload, err)
				}
			}
		}
	}
	if s.state(t) != lifecycle.None || p.calls != 0 {
		t.Errorf("it is %q after %d calls", s.state(t), p.calls)
	}
}

func TestThePaymentTableTakesTheStatesOfItsMachineAndNoOther(t *testing.T) {
	s, _ := paymentIn(t, t.TempDir())
	if wrong := refusedStates(t, s.payments); len(wrong) != 0 {
		t.Errorf("wrong: %q", wrong)
	}
}

func TestOnlyHandlersThatMayCallTheProviderRunAlone(t *testing.T) {
	s, _ := paymentIn(t, t.TempDir())
	for _, r := range s.reactions() {
		calls := false
		for _, state := range s.payments.machine.States() {
			calls = calls || providerCall(s.payments.machine, state, r.on) != callNothing
		}
		if r.outside != calls {
			t.Errorf("%s: alone %v; calls %v", r.on, r.outside, calls)
		}
	}
}
