package lifecycle

import "slices"

// States of a reward: points of our own, and a coupon of the coupon system.
const (
	RewardGranted = "GRANTED"
	RewardRevoked = "REVOKED" // was granted, taken back
	RewardWaived  = "WAIVED"  // given up before it was granted
	RewardBarred  = "BARRED"  // order.cancelled came first
)

// Reward is the life of an order's reward. It is granted once, when the order
// is paid, and taken back if the order is cancelled after all.
func Reward() Machine {
	giveUp := Compensation(OrderPaid)
	inputs := []string{OrderPaid, OrderCancelled, giveUp}
	rows := slices.Concat(
		[]Transition{
			{From: None, On: OrderPaid, To: RewardGranted, Emits: MarketingGranted},
			{From: None, On: OrderCancelled, To: RewardBarred},
			{From: None, On: giveUp, To: RewardWaived, Emits: MarketingRevoked},

			{From: RewardGranted, On: OrderPaid, To: RewardGranted},
			{From: RewardGranted, On: OrderCancelled, To: RewardRevoked, Emits: MarketingRevoked},
			{From: RewardGranted, On: giveUp, To: RewardGranted},
		},
		stays(RewardRevoked, inputs...),
		stays(RewardWaived, inputs...),
		stays(RewardBarred, inputs...),
	)
	return Machine{Name: "marketing", Aggregate: "reward", Rows: rows}
}
