package lifecycle

import "slices"

// lives are the six machines, each with what is right.
func lives() []life {
	return []life{
		{machine: Order(), letters: orderLetters(), depth: 4, right: orderRight, asks: customerAsks},
		{machine: Reservation(), letters: letters(Reservation()), depth: 6, right: reservationRight},
		{machine: Payment(), letters: paymentLetters(), depth: 4, right: paymentRight, asks: providerAnswers},
		{machine: Assessment(), letters: assessmentLetters(), depth: 6, right: assessmentRight},
		{machine: Shipment(), letters: letters(Shipment()), depth: 6, right: shipmentRight},
		{machine: Reward(), letters: letters(Reward()), depth: 6, right: rewardRight},
	}
}

// letters are all inputs of m under all their conditions.
func letters(m Machine) []heard {
	var all []heard
	for _, on := range m.Inputs() {
		for _, when := range m.Conditions(on) {
			all = append(all, heard{on: on, when: when})
		}
	}
	return all
}

func first(history []heard, of ...string) int {
	return slices.IndexFunc(history, func(h heard) bool { return slices.Contains(of, h.on) })
}

// before reports whether on comes in history before place; place -1 is the end.
func before(history []heard, place int, on string) bool {
	if place >= 0 {
		history = history[:place]
	}
	return first(history, on) >= 0
}

// reservationRight: the first of order.created and giving up on it decides
// whether stock is had. Nothing is had for an order that is known to be
// cancelled; what was had is given back when it is. Stock is sold once the
// order is known to be paid.
func reservationRight(history []heard) lived {
	giveUp := Compensation(OrderCreated)
	i := first(history, OrderCreated, giveUp)
	cancelled, paid := before(history, i, OrderCancelled), before(history, i, OrderPaid)
	switch {
	case i < 0 && cancelled:
		return lived{state: ReservationBarred}
	case i < 0 && paid:
		return lived{state: ReservationPrepaid}
	case i < 0:
		return lived{}
	case history[i].on == giveUp || cancelled || history[i].when == Short:
		return lived{ReservationFailed, []string{InventoryReserveFailed}}
	}
	rest := history[i:]
	ended := first(rest, OrderCancelled)
	l := lived{ReservationReserved, []string{InventoryReserved}}
	switch {
	case paid:
		l = lived{ReservationConfirmed, []string{InventorySold}}
	case before(rest, ended, OrderPaid):
		l = lived{ReservationConfirmed, append(l.events, InventorySold)}
	}
	if ended >= 0 {
		l.state, l.events = ReservationReleased, append(l.events, InventoryReleased)
	}
	return l
}

func assessmentLetters() []heard {
	all := letters(Assessment())
	return slices.DeleteFunc(all, func(h heard) bool { return h.when == "" && h.on == RiskReviewDue })
}

// assessmentRight: the first of order.created, its cancelling and giving up
// decides; what is held by the first of its review and its cancelling.
func assessmentRight(history []heard) lived {
	i := first(history, OrderCreated, OrderCancelled, Compensation(OrderCreated))
	switch {
	case i < 0:
		return lived{}
	case history[i].on == OrderCancelled:
		return lived{state: AssessmentClosed}
	case history[i].on != OrderCreated:
		return lived{AssessmentRejected, []string{RiskRejected}}
	case history[i].when == LowRisk:
		return lived{AssessmentApproved, []string{RiskApproved}}
	}
	rest := history[i:]
	switch j := first(rest, RiskReviewDue, OrderCancelled); {
	case j < 0:
		return lived{AssessmentHeld, []string{RiskHeld}}
	case rest[j].on == OrderCancelled:
		return lived{AssessmentClosed, []string{RiskHeld}}
	case rest[j].when == Release:
		return lived{AssessmentApproved, []string{RiskHeld, RiskApproved}}
	}
	return lived{AssessmentRejected, []string{RiskHeld, RiskRejected}}
}

// shipmentRight: the first thing heard decides, for good.
func shipmentRight(history []heard) lived {
	switch history[0].on {
	case OrderPaid:
		return lived{ShipmentShipped, []string{FulfilmentShipped}}
	case OrderCancelled:
		return lived{state: ShipmentBarred}
	}
	return lived{ShipmentFailed, []string{FulfilmentFailed}}
}

// rewardRight: the first thing heard decides; a reward that was granted is
// taken back when the order is cancelled.
func rewardRight(history []heard) lived {
	switch {
	case history[0].on == OrderCancelled:
		return lived{state: RewardBarred}
	case history[0].on != OrderPaid:
		return lived{RewardWaived, []string{MarketingRevoked}}
	case first(history, OrderCancelled) > 0:
		return lived{RewardRevoked, []string{MarketingGranted, MarketingRevoked}}
	}
	return lived{RewardGranted, []string{MarketingGranted}}
}

// orderLetters bring no conditions: what an order's answer depends on is in
// its own history.
func orderLetters() []heard {
	var all []heard
	for _, on := range Order().Inputs() {
		all = append(all, heard{on: on})
	}
	return all
}

// customerAsks keeps whether the customer has asked to pay while that mattered.
func customerAsks() func(Machine, string, heard) string {
	asked := false
	return func(m Machine, state string, h heard) string {
		if h.on != CustomerPays {
			return ""
		}
		if asked {
			return Asked
		}
		t, _ := m.Next(state, h.on, NotAsked)
		asked = t.Emits != ""
		return NotAsked
	}
}

// orderRight goes through the history once with what is known: the first
// answer of inventory counts, the first of risk counts; what is paid only a
// shipment ends; what has ended stays.
func orderRight(history []heard) lived {
	var stock, risk, asked, paid bool
	var l lived
	say := func(event string) { l.events = append(l.events, event) }
	end := func(state, event string) lived {
		say(event)
		return lived{state, l.events}
	}
	for _, h := range history {
		switch {
		case h.on == FulfilmentShipped:
			return end(Completed, OrderCompleted)
		case h.on == FulfilmentFailed:
			return end(Cancelled, OrderCancelled)
		case paid:
		case h.on == PaymentSucceeded:
			paid = true
			say(OrderPaid)
		case h.on == PaymentFailed, h.on == OrderPaymentDue, h.on == CustomerCancels,
			h.on == InventoryReserveFailed && !stock, h.on == RiskRejected && !risk:
			return end(Cancelled, OrderCancelled)
		case h.on == CustomerPays && !asked:
			asked = true
			say(OrderPayRequested)
		case h.on == InventoryReserved && !stock:
			stock = true
			say(map[bool]string{false: OrderReserved, true: OrderConfirmed}[risk])
		case h.on == RiskApproved && !risk:
			risk = true
			say(map[bool]string{false: OrderApproved, true: OrderConfirmed}[stock])
		}
	}
	switch {
	case paid:
		l.state = Paid
	case stock && risk:
		l.state = Confirmed
	case stock:
		l.state = Reserved
	case risk:
		l.state = Approved
	default:
		l.state = Created
	}
	return l
}
