package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// riskService is the risk service's database and what it does there.
type riskService struct {
	base
	assessments aggregate
}

func newRisk(b base) *riskService {
	return &riskService{base: b, assessments: aggregate{machine: lifecycle.Assessment(), table: "t_assessment", db: b.db, now: b.now}}
}

func (s *riskService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.OrderCreated, do: s.created, undo: s.giveUp},
		{on: lifecycle.RiskReviewDue, do: s.reviewed},
		{on: lifecycle.OrderCancelled, do: s.cancelled},
	}
}

// assessmentFacts is the payload of the events of an assessment.
type assessmentFacts struct {
	OrderID string `json:"orderId"`
	// Reason says why risk decided so.
	Reason string `json:"reason"`
	// ReviewAt is when a held order will be looked at.
	ReviewAt time.Time `json:"reviewAt,omitzero"`
}

// reviewFacts is the payload of the timer risk.review_due: all that the review
// needs.
type reviewFacts struct {
	OrderID string `json:"orderId"`
	Amount  Cents  `json:"amount"`
}

// created takes order.created: what is worth much waits for its review.
func (s *riskService) created(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	when, reason := s.rules.assess(order.Amount)
	return s.apply(ctx, tx, e, opinion{input: e.Type, when: when, reason: reason, amount: order.Amount})
}

// reviewed takes risk.review_due. The rule here stands for a person who looks
// at the order and decides; everything else would stay as it is.
func (s *riskService) reviewed(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	var due reviewFacts
	if err := json.Unmarshal(e.Payload, &due); err != nil {
		return settle.Permanent(fmt.Errorf("read payload of %s: %w", e.Type, err))
	}
	when, reason := s.rules.review(due.Amount)
	return s.apply(ctx, tx, e, opinion{input: e.Type, when: when, reason: reason})
}

// cancelled takes order.cancelled: there is nothing to decide any more.
func (s *riskService) cancelled(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	return s.apply(ctx, tx, e, opinion{input: e.Type, reason: "the order was cancelled"})
}

// giveUp compensates order.created: what can't be assessed is rejected.
func (s *riskService) giveUp(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	return s.apply(ctx, tx, e, opinion{input: lifecycle.Compensation(e.Type), reason: "assessing it was given up"})
}

// opinion is what an input says about an order.
type opinion struct {
	input, when string
	reason      string
	amount      Cents // what a review that this may start will go by
}

const noteAssessment = `UPDATE t_assessment SET reason = $1, review_at = $2 WHERE order_id = $3`

// apply does what the machine says to o.
func (s *riskService) apply(ctx context.Context, tx *sql.Tx, e *settle.Event, o opinion) error {
	a, err := s.assessments.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.assessments.next(a, o.input, o.when)
	if err != nil || !row.Changes() {
		return err
	}
	facts, reviewAt := assessmentFacts{OrderID: a.orderID, Reason: o.reason}, int64(0)
	if row.Starts != "" {
		facts.ReviewAt = time.UnixMicro(a.at).UTC().Add(s.rules.ReviewAfter)
		reviewAt = facts.ReviewAt.UnixMicro()
	}
	if err := s.assessments.save(ctx, tx, a, row, facts); err != nil {
		return err
	}
	if _, err := exec(ctx, s.db, tx, noteAssessment, o.reason, reviewAt, a.orderID); err != nil {
		return fmt.Errorf("note assessment: %w", err)
	}
	if row.Starts == "" {
		return nil
	}
	body, err := json.Marshal(reviewFacts{OrderID: a.orderID, Amount: o.amount})
	if err != nil {
		return fmt.Errorf("encode %s: %w", row.Starts, err)
	}
	return s.db.Append(ctx, tx, &settle.Event{
		Type: row.Starts, AggregateType: lifecycle.RiskTimer, AggregateID: a.orderID, NotBefore: facts.ReviewAt,
		BizKey: e.BizKey, TraceID: e.TraceID, CausationID: e.ID, Payload: body,
	})
}
