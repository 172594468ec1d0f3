package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// riskAmounts are amounts at the edges of the rules: low, held and released,
// held and refused.
func riskAmounts() []Cents { return []Cents{0, 500_00, 500_01, 1_000_00, 1_000_01} }

// assessmentAfter is the state that an assessment must be in and the events
// it must have appended. A review before anything else finds nothing to do;
// then what comes first decides, and a held order waits for the next word.
func assessmentAfter(amount Cents, done []string) (state string, events []string) {
	for len(done) > 0 && done[0] == lifecycle.RiskReviewDue {
		done = done[1:]
	}
	switch {
	case len(done) == 0:
		return "", nil
	case done[0] == lifecycle.OrderCancelled:
		return "CLOSED", nil
	case done[0] != lifecycle.OrderCreated:
		return "REJECTED", []string{"risk.rejected"}
	case amount <= 500_00:
		return "APPROVED", []string{"risk.approved"}
	}
	reviewed, cancelled := slices.Index(done, lifecycle.RiskReviewDue), slices.Index(done, lifecycle.OrderCancelled)
	switch {
	case reviewed < 0 && cancelled < 0:
		return "HELD", []string{"risk.held"}
	case reviewed < 0 || (cancelled >= 0 && cancelled < reviewed):
		return "CLOSED", []string{"risk.held"}
	case amount <= 1_000_00:
		return "APPROVED", []string{"risk.held", "risk.approved"}
	}
	return "REJECTED", []string{"risk.held", "risk.rejected"}
}

// riskStage is a risk service and an order of each amount.
func riskStage(t *testing.T) (*stage, *riskService) {
	t.Helper()
	service := newRisk(baseIn(t, "risk", outsiders{}))
	st := &stage{db: service.db, reactions: service.reactions(), weather: new(weather), calls: new(int), begin: func() {}}
	for i, amount := range riskAmounts() {
		st.orders = append(st.orders, orderFacts{OrderID: fmt.Sprint("o", i), CustomerID: "c", Amount: amount, Items: []Item{{"a", 1}}})
	}
	st.wrong = func(ctx context.Context, tx *sql.Tx, order orderFacts, done []string) error {
		state, events := assessmentAfter(order.Amount, done)
		return errors.Join(wrongAssessment(ctx, tx, order.OrderID, state), wrongTimer(ctx, tx, order.OrderID, slices.Contains(events, "risk.held")),
			mustHave(ctx, tx, order.OrderID, events...))
	}
	return st, service
}

func wrongAssessment(ctx context.Context, tx *sql.Tx, orderID, state string) error {
	var got, reason string
	var reviewAt int64
	err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(state), ''), COALESCE(MAX(reason), ''), COALESCE(MAX(review_at), 0) FROM t_assessment WHERE order_id = $1`, orderID).Scan(&got, &reason, &reviewAt)
	if err != nil {
		return err
	}
	due := int64(0)
	if state == "HELD" {
		due = noon.Add(time.Minute).UnixMicro()
	}
	if got != state || (reason == "") != (state == "") || reviewAt != due {
		return fmt.Errorf("the assessment is %q because %q, to be reviewed at %d; want %q and %d", got, reason, reviewAt, state, due)
	}
	return nil
}

// wrongTimer looks for the one timer of an order that was held.
func wrongTimer(ctx context.Context, tx *sql.Tx, orderID string, held bool) error {
	var timers, right int64
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(not_before = $1 AND aggregate_type = 'risk_timer' AND aggregate_seq = 0), 0)
 FROM t_outbox_event WHERE aggregate_id = $2 AND event_type = 'risk.review_due'`, noon.Add(time.Minute).UnixMicro(), orderID).Scan(&timers, &right); err != nil {
		return err
	}
	if (held && timers != 1) || (!held && timers != 0) || right != timers {
		return fmt.Errorf("%d timers, %d of them right; that it was held is %v", timers, right, held)
	}
	return nil
}

func TestAnOrderIsAssessedOnceWhateverComes(t *testing.T) {
	st, _ := riskStage(t)
	st.check(t, lifecycle.Assessment().Inputs())
}

func TestAWrongAssessmentIsNoticed(t *testing.T) {
	giveUp := lifecycle.Compensation(lifecycle.OrderCreated)
	row := func(row lifecycle.Transition) func(*riskService) {
		return func(s *riskService) { s.assessments.machine = withRow(s.assessments.machine, row) }
	}
	bugs := map[string]func(*riskService){
		"a held order has no timer":                   row(lifecycle.Transition{From: "", On: lifecycle.OrderCreated, When: lifecycle.HighRisk, To: "HELD", Emits: lifecycle.RiskHeld}),
		"a review opens what is closed":               row(lifecycle.Transition{From: "CLOSED", On: lifecycle.RiskReviewDue, To: "APPROVED", Emits: lifecycle.RiskApproved}),
		"the compensation rejects what is held":       row(lifecycle.Transition{From: "HELD", On: giveUp, To: "REJECTED", Emits: lifecycle.RiskRejected}),
		"a repeat holds again":                        row(lifecycle.Transition{From: "HELD", On: lifecycle.OrderCreated, To: "HELD", Emits: lifecycle.RiskHeld, Starts: lifecycle.RiskReviewDue}),
		"an order at the limit is held":               func(s *riskService) { s.rules.HoldAbove-- },
		"the review releases what is above its limit": func(s *riskService) { s.rules.ReleaseUpTo++ },
		"the review comes early":                      func(s *riskService) { s.rules.ReviewAfter-- },
	}
	for name, plant := range bugs {
		t.Run(name, func(t *testing.T) {
			st, service := riskStage(t)
			plant(service)
			if err := st.notices(t, lifecycle.Assessment().Inputs()); err == nil {
				t.Error("nothing is noticed")
			}
		})
	}
}

func TestAHeldOrderIsDecidedFromWhatItsTimerCarries(t *testing.T) {
	st, service := riskStage(t)
	for _, c := range []struct{ id, amount, held, decided string }{
		{"o1", "1000.00", "the amount 1000.00 is above 500.00: held for review", `risk.approved timer trace c {"orderId":"o1","reason":"the reviewed amount 1000.00 is not above 1000.00"}`},
		{"o2", "1000.01", "the amount 1000.01 is above 500.00: held for review", `risk.rejected timer trace c {"orderId":"o2","reason":"the reviewed amount 1000.01 is above 1000.00"}`},
	} {
		e := &settle.Event{ID: "cause", Type: lifecycle.OrderCreated, AggregateID: c.id, BizKey: "c", TraceID: "trace", Payload: []byte(`{"amount":"` + c.amount + `","items":[{"sku":"a","quantity":1}]}`)}
		says(t, st.db, c.id, func(tx *sql.Tx) error { return service.created(t.Context(), tx, e) },
			fmt.Sprintf(`risk.held cause trace c {"orderId":%q,"reason":%q,"reviewAt":"2026-03-01T12:01:00Z"}`, c.id, c.held),
			fmt.Sprintf(`risk.review_due cause trace c {"orderId":%q,"amount":%q}`, c.id, c.amount))
		due := &settle.Event{ID: "timer", Type: lifecycle.RiskReviewDue, AggregateID: c.id, BizKey: "c", TraceID: "trace"}
		if err := st.db.Reader.QueryRow(`SELECT payload FROM t_outbox_event WHERE event_type = 'risk.review_due' AND aggregate_id = $1`, c.id).Scan(&due.Payload); err != nil {
			t.Fatal(err)
		}
		says(t, st.db, c.id, func(tx *sql.Tx) error { return service.reviewed(t.Context(), tx, due) }, c.decided)
	}
}

func TestATimerThatCannotBeReadIsADeadLetterAtOnce(t *testing.T) {
	st, service := riskStage(t)
	for _, payload := range []string{``, `[]`, `{"amount":7}`, `{"amount":"-1.00"}`} {
		err := inTx(t.Context(), st.db, func(tx *sql.Tx) error {
			return service.reviewed(t.Context(), tx, &settle.Event{ID: "timer", Type: lifecycle.RiskReviewDue, AggregateID: "o1", Payload: []byte(payload)})
		})
		if !settle.IsPermanent(err) {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}
