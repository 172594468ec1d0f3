package lifecycle

import "slices"

// States of risk's assessment of an order.
const (
	AssessmentApproved = "APPROVED"
	AssessmentHeld     = "HELD" // waits for its review
	AssessmentRejected = "REJECTED"
	AssessmentClosed   = "CLOSED" // the order was cancelled before it was decided
)

// What an assessment depends on beside its state.
const (
	LowRisk  = "low risk"
	HighRisk = "high risk"
	Release  = "release" // the review lets the order go on
	Refuse   = "refuse"  // the review ends the order
)

// Assessment is the life of risk's assessment. A high-risk order is held until
// its review, which releases or ends it.
func Assessment() Machine {
	giveUp := Compensation(OrderCreated)
	inputs := []string{OrderCreated, RiskReviewDue, OrderCancelled, giveUp}
	rows := slices.Concat(
		[]Transition{
			{From: None, On: OrderCreated, When: LowRisk, To: AssessmentApproved, Emits: RiskApproved},
			{From: None, On: OrderCreated, When: HighRisk, To: AssessmentHeld, Emits: RiskHeld, Starts: RiskReviewDue},
			{From: None, On: RiskReviewDue, To: None},
			{From: None, On: OrderCancelled, To: AssessmentClosed},
			{From: None, On: giveUp, To: AssessmentRejected, Emits: RiskRejected},

			{From: AssessmentHeld, On: OrderCreated, To: AssessmentHeld},
			{From: AssessmentHeld, On: RiskReviewDue, When: Release, To: AssessmentApproved, Emits: RiskApproved},
			{From: AssessmentHeld, On: RiskReviewDue, When: Refuse, To: AssessmentRejected, Emits: RiskRejected},
			{From: AssessmentHeld, On: OrderCancelled, To: AssessmentClosed},
			{From: AssessmentHeld, On: giveUp, To: AssessmentHeld},
		},
		stays(AssessmentApproved, inputs...),
		stays(AssessmentRejected, inputs...),
		stays(AssessmentClosed, inputs...),
	)
	return Machine{Name: "risk", Aggregate: "assessment", Rows: rows}
}
