package lifecycle

// What the letters of a payment's history bring: whether the order says that
// its customer wants to pay, and what the provider would say.
const (
	wishes  = "wants to pay, the provider agrees"
	refused = "wants to pay, the provider refuses"
	waits   = "pays later, the provider agrees"
)

func paymentLetters() []heard {
	all := []heard{
		{on: OrderCreated}, {on: OrderCancelled},
		{on: OrderConfirmed, when: wishes}, {on: OrderConfirmed, when: refused}, {on: OrderConfirmed, when: waits},
		{on: OrderPayRequested, when: wishes}, {on: OrderPayRequested, when: refused},
		{on: Compensation(OrderConfirmed)}, {on: Compensation(OrderPayRequested)},
	}
	for _, h := range all {
		if h.on != OrderCreated {
			h.lost = true
			all = append(all, h)
		}
	}
	return all
}

// provider is the ledger of a payment provider for one order. Its first answer
// to a capture stands.
type provider struct{ answered, declined, taken, barred, returned bool }

func (p *provider) capture(declines bool) (declined bool) {
	if !p.answered {
		p.answered = true
		p.declined = declines || p.barred
		p.taken = !p.declined
	}
	return p.declined
}

func (p *provider) void() (returned bool) {
	p.barred = true
	if p.taken {
		p.taken, p.returned = false, true
	}
	return p.returned
}

// providerAnswers asks a provider where the machine wants to know, as a service
// does: it looks at the table for what the answer depends on. To cancel and to
// give up always ask.
func providerAnswers() func(Machine, string, heard) string {
	p := &provider{}
	return func(m Machine, state string, h heard) string { return p.answer(m, state, h) }
}

func (p *provider) answer(m Machine, state string, h heard) string {
	depends := func(when string) bool {
		t, _ := m.Next(state, h.on, when)
		return t.When == when
	}
	switch h.on {
	case OrderCancelled, Compensation(OrderConfirmed), Compensation(OrderPayRequested):
		if state == PaymentCaptured && h.on != OrderCancelled {
			return "" // the order has moved on
		}
		if p.void() {
			return MoneyReturned
		}
		return NothingTaken
	}
	switch {
	case !depends(Taken):
		return ""
	case h.when == waits && depends(PaysLater):
		return PaysLater
	case p.capture(h.when == refused):
		return Declined
	}
	return Taken
}

// paymentRight goes through the history once with what is known: whether the
// order may be paid, whether its customer wants to, and what the provider has
// done. Money is asked for once both hold. The first of capture, refusal,
// cancelling and giving up decides; what was taken goes back on cancelling.
func paymentRight(history []heard) lived {
	var may, wants, known, over bool
	var p provider
	l := lived{}
	say := func(state, event string) {
		if l.state = state; event != "" {
			l.events = append(l.events, event)
		}
	}
	for _, h := range history {
		giveUp := h.on == Compensation(OrderConfirmed) || h.on == Compensation(OrderPayRequested)
		confirmed := may || h.on == OrderConfirmed
		wish := wants || h.on == OrderPayRequested || (h.on == OrderConfirmed && h.when != waits)
		asks := !over && confirmed && wish && (h.on == OrderPayRequested && may || h.on == OrderConfirmed && !may)
		var declined, returned bool
		switch {
		case h.on == OrderCancelled, giveUp && l.state != PaymentCaptured:
			returned = p.void()
		case asks:
			declined = p.capture(h.when == refused)
		}
		switch {
		case h.lost:
			continue
		case l.state == PaymentCaptured && h.on == OrderCancelled:
			say(PaymentReturned, PaymentRefunded)
			continue
		case over:
			continue
		case h.on == OrderCancelled && returned:
			say(PaymentReturned, PaymentRefunded)
		case h.on == OrderCancelled && known:
			say(PaymentCancelled, PaymentVoided)
		case h.on == OrderCancelled:
			say(PaymentBarred, "")
		case giveUp, asks && declined:
			say(map[bool]string{false: PaymentDeclined, true: PaymentCancelled}[giveUp], PaymentFailed)
		case asks:
			say(PaymentCaptured, PaymentSucceeded)
		default:
			may, wants = confirmed, wish
			created := PaymentCreated
			if known {
				created = ""
			}
			known = true
			say(waiting(may, wants), created)
			continue
		}
		over = true
	}
	return l
}

func waiting(may, wants bool) string {
	switch {
	case may:
		return PaymentDue
	case wants:
		return PaymentAsked
	}
	return PaymentOpen
}
