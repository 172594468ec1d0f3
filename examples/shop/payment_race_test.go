package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// What can happen next to an order and its payment.
const (
	paymentHears = "the payment service hears the order"
	orderHears   = "the order hears the payment service"
)

// race is an order, by its table alone, and the real payment service, with the
// events on the way between them. Each way keeps its order; the two ways do
// not wait for each other.
type race struct {
	*paymentService
	provider *fakeProvider
	tx       *sql.Tx
	order    string
	asked    bool // the customer has asked to pay
	now      bool // wants to pay from the beginning
	hears    []string
	heard    int64 // last row of the payment's outbox that the order heard
	late     bool  // money came after the order was cancelled
}

// moves are all that can happen to a race: what the order may be told, by
// whom ever, and what travels; the more often the likelier. In some races
// nobody cancels and time does not run out, or hardly any order would be paid.
func moves(calm bool) []string {
	all := []string{lifecycle.CustomerPays}
	if !calm {
		all = append(all, lifecycle.CustomerCancels, lifecycle.OrderPaymentDue)
	}
	for range 4 {
		all = append(all, lifecycle.InventoryReserved, lifecycle.RiskApproved, paymentHears, orderHears)
	}
	return all
}

// startRace begins a race of an order that is there already, in a transaction
// that its caller rolls back.
func startRace(ctx context.Context, s *paymentService, now bool) (*race, error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	r := &race{paymentService: s, provider: newProvider(), tx: tx, order: lifecycle.Created, now: now, asked: now}
	s.outside.provider = r.provider
	r.hears = []string{lifecycle.OrderCreated}
	return r, nil
}

// goes makes one move.
func (r *race) goes(ctx context.Context, move string, m mood) error {
	switch move {
	case paymentHears:
		return r.payment(ctx, m)
	case orderHears:
		var event string
		err := r.tx.QueryRowContext(ctx, `SELECT id, event_type FROM t_outbox_event WHERE id > $1 ORDER BY id`, r.heard).Scan(&r.heard, &event)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err == nil && !slices.Contains(lifecycle.Order().Inputs(), event):
			return r.goes(ctx, move, m)
		}
		r.late = r.late || event == lifecycle.PaymentSucceeded && r.order == lifecycle.Cancelled
		return errors.Join(err, r.takes(event))
	}
	return r.takes(move)
}

// takes tells the order something.
func (r *race) takes(input string) error {
	when := lifecycle.NotAsked
	if r.asked {
		when = lifecycle.Asked
	}
	row, ok := lifecycle.Order().Next(r.order, input, when)
	if !ok {
		return fmt.Errorf("an order that is %s has no answer to %s", r.order, input)
	}
	r.order = row.To
	r.asked = r.asked || row.Emits == lifecycle.OrderPayRequested
	if row.Emits != "" {
		r.hears = append(r.hears, row.Emits)
	}
	return nil
}

// payment lets the payment service hear the next event of the order; one that
// fails stays the next.
func (r *race) payment(ctx context.Context, m mood) error {
	r.hears = slices.DeleteFunc(r.hears, func(event string) bool {
		return !slices.ContainsFunc(r.reactions(), func(re reaction) bool { return re.on == event })
	})
	if len(r.hears) == 0 {
		return nil
	}
	pay := PayLater
	if r.now || r.hears[0] == lifecycle.OrderPayRequested {
		pay = PayNow
	}
	e, err := paymentEvent(r.hears[0], "o", 500, pay)
	if err != nil {
		return err
	}
	if _, err := r.tx.ExecContext(ctx, `SAVEPOINT event`); err != nil {
		return err
	}
	r.provider.mood = m
	failure, end := handled(ctx, r, r.tx, e, false), `RELEASE event`
	switch {
	case failure == nil:
		r.hears = r.hears[1:]
	case m == gone || m == mute:
		end = `ROLLBACK TO event`
	default:
		return failure
	}
	_, err = r.tx.ExecContext(ctx, end)
	return err
}

// ends lets all travel to where it goes and checks that order, payment and
// provider tell one story.
func (r *race) ends(ctx context.Context) error {
	for before := int64(-1); len(r.hears) > 0 || before != r.heard; {
		before = r.heard
		if err := errors.Join(r.goes(ctx, paymentHears, willing), r.goes(ctx, orderHears, willing)); err != nil {
			return err
		}
	}
	var state, last, payload string
	err := r.tx.QueryRowContext(ctx, `SELECT state, event_type, payload FROM t_payment JOIN t_outbox_event ON aggregate_id = order_id ORDER BY aggregate_seq DESC`).Scan(&state, &last, &payload)
	if err != nil {
		return err
	}
	var facts paymentFacts
	if err := json.Unmarshal([]byte(payload), &facts); err != nil {
		return err
	}
	net, taken := r.provider.net("o"), r.provider.taken("o")
	paid := r.order == lifecycle.Paid
	switch {
	case paid != (state == lifecycle.PaymentCaptured), paid != (net == 500):
		return fmt.Errorf("the order is %s, its payment %s, the provider has %v", r.order, state, net)
	case taken > 500 || (net != 0 && net != 500):
		return fmt.Errorf("the provider took %v and has %v", taken, net)
	case (state == lifecycle.PaymentReturned) != (taken > net), last == lifecycle.PaymentRefunded && facts.Amount != taken:
		return fmt.Errorf("the payment is %s and says %v; the provider took %v and has %v", state, facts.Amount, taken, net)
	case r.order == lifecycle.Cancelled && slices.Contains([]string{lifecycle.PaymentOpen, lifecycle.PaymentAsked, lifecycle.PaymentDue}, state):
		return fmt.Errorf("the order is cancelled, its payment still %s", state)
	}
	return nil
}

func TestOrderPaymentAndProviderTellOneStoryHoweverTheyRace(t *testing.T) {
	s, _ := paymentIn(t, t.TempDir())
	ended, late := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		r, err := startRace(t.Context(), s, rapid.Bool().Draw(rt, "now"))
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = r.tx.Rollback() }()
		all := moves(rapid.Bool().Draw(rt, "calm"))
		for range rapid.IntRange(10, 40).Draw(rt, "moves") {
			move := rapid.SampledFrom(all).Draw(rt, "move")
			m := rapid.SampledFrom([]mood{willing, willing, willing, strict, mute, gone}).Draw(rt, "mood")
			if err := r.goes(t.Context(), move, m); err != nil {
				rt.Fatal(err)
			}
		}
		if err := r.ends(t.Context()); err != nil {
			rt.Fatal(err)
		}
		ended[r.order]++
		if r.late {
			late++
		}
	})
	if ended[lifecycle.Paid] == 0 || ended[lifecycle.Cancelled] == 0 || late == 0 {
		t.Errorf("ended %v, money came late %d times: the test shows too little", ended, late)
	}
}

func TestWhoeverIsFirstWinsTheRaceForAConfirmedOrder(t *testing.T) {
	confirmed := []string{paymentHears, lifecycle.InventoryReserved, lifecycle.RiskApproved}
	for _, c := range []struct {
		name           string
		now            bool
		moves          []string
		order, payment string
	}{
		{"money, then cancel", true, []string{paymentHears, orderHears, lifecycle.CustomerCancels}, lifecycle.Paid, lifecycle.PaymentCaptured},
		{"cancel, then money", true, []string{lifecycle.CustomerCancels, paymentHears, orderHears}, lifecycle.Cancelled, lifecycle.PaymentReturned},
		{"money, then time-out", true, []string{paymentHears, orderHears, lifecycle.OrderPaymentDue}, lifecycle.Paid, lifecycle.PaymentCaptured},
		{"money that is not known, then time-out", true, []string{paymentHears, lifecycle.OrderPaymentDue}, lifecycle.Cancelled, lifecycle.PaymentReturned},
		{"wish to pay, then time-out", false, []string{paymentHears, lifecycle.CustomerPays, lifecycle.OrderPaymentDue}, lifecycle.Cancelled, lifecycle.PaymentReturned},
		{"time-out, then wish to pay", false, []string{paymentHears, lifecycle.OrderPaymentDue, lifecycle.CustomerPays}, lifecycle.Cancelled, lifecycle.PaymentCancelled},
	} {
		s, _ := paymentIn(t, t.TempDir())
		r, err := startRace(t.Context(), s, c.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, move := range append(slices.Clone(confirmed), c.moves...) {
			if err := r.goes(t.Context(), move, willing); err != nil {
				t.Fatal(err)
			}
		}
		err = r.ends(t.Context())
		var payment string
		if err := r.tx.QueryRow(`SELECT state FROM t_payment`).Scan(&payment); err != nil {
			t.Fatal(err)
		}
		if err != nil || r.order != c.order || payment != c.payment {
			t.Errorf("%s: the order is %s, its payment %s: %v", c.name, r.order, payment, err)
		}
		_ = r.tx.Rollback()
	}
}

func TestTheRaceNoticesMoneyThatStays(t *testing.T) {
	s, _ := paymentIn(t, t.TempDir())
	s.payments.machine = withRow(lifecycle.Payment(), lifecycle.Transition{From: lifecycle.PaymentCaptured, On: lifecycle.OrderCancelled, To: lifecycle.PaymentCaptured})
	r, err := startRace(t.Context(), s, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.tx.Rollback() }()
	for _, move := range []string{lifecycle.InventoryReserved, lifecycle.RiskApproved, lifecycle.CustomerCancels} {
		if err := r.goes(t.Context(), move, willing); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.ends(t.Context()); err == nil {
		t.Error("a cancelled order keeps its money and nobody notices")
	}
}
