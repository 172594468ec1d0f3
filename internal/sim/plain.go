package sim

import (
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// plain is a story without a meaning: one outbox, and groups whose only effect
// is that they have handled an event. It reaches all that the machines can do.
type plain struct {
	*World
	outbox *outboxModel
}

// Event types, and the one that only some groups handle.
const (
	typeOrdinary = "order.created"
	typeSometime = "order.noted"
)

func newPlain(w *World, routed bool) {
	p := &plain{World: w}
	w.story = p
	fanned := w.Fanned
	w.Swarm = newSwarm(w.dice)
	if w.Fanned = fanned; routed {
		w.withRoutes(w.dice)
	}
	p.outbox = w.addOutbox("outbox")
	w.broker = newBrokerModel(w)
	if w.Routed {
		w.reroute()
	}
	for i := range w.Groups {
		w.inboxes = append(w.inboxes, newInboxModel(w, &w.Groups[i], p.outbox))
	}
}

func (p *plain) rules(g *groupSetup) map[string]consumer.HandlerRule {
	rules := map[string]consumer.HandlerRule{typeOrdinary: {Batch: g.Batch, External: g.External}}
	if !g.IgnoreSome {
		rules[typeSometime] = consumer.HandlerRule{}
	}
	return rules
}

func (p *plain) handle(*inboxModel, *settle.Item) error { return nil }

func (p *plain) committed(*inboxModel) {}

func (p *plain) blames(*inboxModel, *letter) bool { return false }

func (p *plain) discards() bool { return p.chance(0.2) }

func (p *plain) unsettled(func(string, ...any)) {}

func (p *plain) end() { p.newGeneration() }

func (p *plain) plan() {
	for range p.Transactions {
		p.After(p.between(0, faultTime-500*time.Millisecond), p.transact)
	}
	if p.Pooled > 0 {
		p.outbox.reserve(p.from(1, 4))
	}
	for range p.LaneChanges {
		p.After(p.between(0, faultTime), func() { p.divide(p.from(1, 4)) })
	}
	for range p.RouteChanges {
		p.After(p.between(0, faultTime), p.reroute)
	}
	if p.Operators {
		for range p.from(4, 16) {
			p.After(p.between(0, faultTime), p.operate)
		}
	}
}
