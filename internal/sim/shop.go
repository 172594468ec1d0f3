package sim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// shop is the story of examples/shop: six services, each with a database of its
// own (business rows, outbox, inbox), that talk by events on one topic, and
// three systems of others. The tables of package lifecycle decide; what stands
// around them here is written anew, without SQL.
//
// Read shopservice.go (a service at work), shopoutside.go (the others'
// systems), shopcustomer.go (who orders, pays and cancels) and shopchecks.go.
type shop struct {
	*World
	services                   []*service // in the order of lifecycle.Machines
	provider, coupons, carrier *outsider
	outsiders                  []*outsider // these three
	entry                      *process    // takes what customers ask for
	customers                  []*customer
	shelves                    []*shelf
	said                       map[string]int    // events, by order and type
	ended                      map[string]string // final states seen, by order
}

// Places in shop.services.
const (
	atOrder = iota
	atInventory
	atPayment
	atRisk
	atFulfilment
	atMarketing
)

// RunShop runs one seed of the shop.
func RunShop(seed uint64, keep bool) Result {
	w := newWorld(seed, keep)
	newShop(w)
	return w.result(seed)
}

func newShop(w *World) {
	p := &shop{World: w, said: map[string]int{}, ended: map[string]string{}}
	w.story = p
	w.Swarm = newShopSwarm(w.dice)
	w.broker = newBrokerModel(w)
	for i, m := range lifecycle.Machines() {
		o := w.addOutbox(m.Name)
		s := &service{shop: p, machine: m, outbox: o, rows: map[string]row{}}
		p.services = append(p.services, s)
		s.inbox = newInboxModel(w, &w.Groups[i], o)
		w.inboxes = append(w.inboxes, s.inbox)
	}
	p.provider, p.coupons, p.carrier = p.addOutsider("provider"), p.addOutsider("coupons"), p.addOutsider("carrier")
	p.entry = w.newProcess("entry", p.services[atOrder].outbox)
	p.entry.start, p.entry.jolt = func() {}, func() {}
	p.entry.end = p.entry.gone
	for i := range w.Articles {
		p.shelves = append(p.shelves, &shelf{sku: "sku-" + string(rune('a'+i)), initial: w.Stock, available: w.Stock})
	}
}

// newShopSwarm sets up a shop: all that can go wrong between the services, and
// beside that what customers and others' systems do.
func newShopSwarm(d dice) Swarm {
	s := newSwarm(d)
	s.Topics, s.Async, s.Delayed, s.Counted, s.KeyInTwoTopics = 1, 0, 0, false, false
	s.Pooled = d.some(0.5, 0.5) // at the entry: what it writes may come late, and others' events early
	s.RelayPass = false         // what was refused and passed by is lost to the shop
	s.BinaryLog = s.InnoDB      // whoever was told of an order finds it
	s.Defective, s.Killer, s.Rejected, s.Foreign, s.RateLimit = 0, 0, 0, 0, 0
	s.Refused, s.Poison, s.Permanent = s.Refused/3, s.Poison/3, s.Permanent/3
	s.Rollback, s.LostCommit = s.Rollback/2, d.some(0.5, 0.05)
	s.DatabaseCrashes = d.chance(0.25)
	s.Relays, s.Transactions = d.from(1, 2), d.from(2, 6)
	s.Groups = nil
	for i, m := range lifecycle.Machines() {
		g := newGroup(d, i, false)
		g.Name, g.Members, g.Pass = m.Name, d.from(1, 2), false
		g.DedupWindow, g.EffectKeys, g.Batch, g.External, g.IgnoreSome, g.LeftOvers, g.RateLimit = 0, false, false, false, false, 0, 0
		s.Groups = append(s.Groups, g)
	}
	s.Articles, s.Stock = d.from(1, 2), d.from(2, 12)
	s.PaysLater, s.Cancels, s.HighRisk, s.Declined, s.Free = d.some(0.7, 0.4), d.some(0.7, 0.4), d.some(0.6, 0.4), d.some(0.4, 0.3), d.some(0.3, 0.3)
	s.PaymentWindow = d.pick(time.Second, 2*time.Second, 5*time.Second, 20*time.Second)
	s.ReviewAfter = d.pick(300*time.Millisecond, time.Second, 3*time.Second)
	s.OutsideLost, s.OutsideHangs, s.OutsideAway = d.some(0.6, 0.25), d.some(0.5, 0.3), d.some(0.4, 0.1)
	s.Outages, s.Stuck = d.chance(0.5), d.some(0.4, 0.3)
	return s
}

func (p *shop) service(x *inboxModel) *service {
	for _, s := range p.services {
		if s.inbox == x {
			return s
		}
	}
	return nil
}

// asksOutside are the events for which a service calls somebody else's system.
var asksOutside = map[string][]string{
	"payment":    {lifecycle.OrderConfirmed, lifecycle.OrderPayRequested, lifecycle.OrderCancelled},
	"fulfilment": {lifecycle.OrderPaid},
	"marketing":  {lifecycle.OrderPaid, lifecycle.OrderCancelled},
}

func (p *shop) rules(g *groupSetup) map[string]consumer.HandlerRule {
	rules := map[string]consumer.HandlerRule{}
	for _, m := range lifecycle.Machines() {
		if m.Name != g.Name {
			continue
		}
		for _, input := range m.Inputs() {
			if lifecycle.IsEvent(input) {
				rules[input] = rule(m, input)
			}
		}
	}
	return rules
}

func rule(m lifecycle.Machine, event string) consumer.HandlerRule {
	r := consumer.HandlerRule{}
	for _, e := range asksOutside[m.Name] {
		r.External = r.External || e == event
	}
	for _, input := range m.Inputs() {
		if input == lifecycle.Compensation(event) {
			r.Compensation = &consumer.HandlerRule{External: r.External}
		}
	}
	return r
}

// handle is a service's handler. An event of an order brings the whole order;
// the order service knows it.
func (p *shop) handle(x *inboxModel, it *settle.Item) error {
	s, e, input := p.service(x), it.Record.Event, it.Record.Event.Type
	if it.Compensate {
		input = lifecycle.Compensation(input)
		p.probes.hit("given up: " + e.Type + " at " + s.machine.Name)
	}
	var o order
	if err := json.Unmarshal(e.Payload, &o); err != nil {
		return settle.Permanent(err)
	}
	return s.hear(x, o, input, e.ID)
}

func (p *shop) committed(x *inboxModel) {
	s := p.service(x)
	// Where the entry is at work, its own commit will be looked at.
	p.look(s, slices.DeleteFunc(s.touched, func(id string) bool { return x.rowLock(id).held }))
	s.touched = s.touched[:0]
}

// blames: whoever calls outside may fail because of it.
func (p *shop) blames(x *inboxModel, l *letter) bool {
	return l.record.Event != nil && x.rules[l.record.Event.Type].External
}

func (p *shop) discards() bool { return false }

// decide is a person's answer to a dead letter: what was wrong is put right and
// the event is handled again, or it is given up, where that is possible. Once
// given up it stays so: a call to undo it, from which no answer came, may still
// be done.
func (p *shop) decide(x *inboxModel, l *letter) {
	f := p.fates[l.eventID]
	f.cured = f.cured || p.Phase == phaseCalm || p.chance(0.7)
	r := x.retryByID(l.retryID)
	if r != nil && (r.item.Compensate || x.rules[l.record.Event.Type].Compensation != nil && p.chance(0.4)) {
		x.Compensate(l)
		return
	}
	if x.group.Name == "marketing" && p.blames(x, l) {
		p.probes.hit("dead letter of the coupon system replayed")
	}
	x.Replay(l, true)
}

func (p *shop) plan() {
	p.After(p.between(0, 20*time.Millisecond), p.entry.born)
	for i := range p.Transactions {
		p.addCustomer(i)
	}
	if p.Outages {
		for _, out := range p.outsiders {
			from := p.between(0, faultTime)
			out.outage = window{from, from + p.between(300*time.Millisecond, 3*time.Second)}
			out.silent = p.chance(0.7)
		}
	}
	if p.Operators {
		for range p.from(8, 24) {
			p.After(p.between(0, faultTime), p.operate)
		}
	}
}

// operate is a person doing something while the shop runs.
func (p *shop) operate() {
	if p.chance(0.3) {
		p.pauseSomething(p.customers[p.IntN(len(p.customers))].order.ID)
		return
	}
	for _, x := range p.inboxes {
		for _, l := range x.letters {
			if l.open && p.chance(0.5) {
				p.decide(x, l)
				return
			}
		}
	}
}
