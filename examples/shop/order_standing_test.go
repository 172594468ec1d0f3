package shop

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/govern"
)

// known builds what the services know of an order, a step after the other.
type known struct {
	standing
	at time.Time
}

func knownOf(status string) *known {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &known{at: at, standing: standing{
		order: OrderStatus{OrderID: "o-1", Status: status, Pay: PayNow, PayBy: at.Add(time.Hour)},
		handles: map[string][]string{
			lifecycle.OrderCreated: {"inventory", "risk"}, lifecycle.InventoryReserved: {"order"}, lifecycle.OrderPaid: {"fulfilment", "marketing"},
			lifecycle.OrderPaymentDue: {"order"}, lifecycle.RiskReviewDue: {"risk"},
		},
	}}
}

// step adds what a service knows of an event; every event has its type as id.
func (k *known) step(service, group, stage, event string) *known {
	k.at = k.at.Add(time.Second)
	k.steps = append(k.steps, govern.Step{At: k.at, Service: service, Group: group, Stage: stage, EventID: event, EventType: event, Key: "o-1"})
	return k
}

// sent adds an event that the broker has, and who is done with it.
func (k *known) sent(service, event string, groups ...string) *known {
	k.step(service, "", govern.StageAppended, event).step(service, "", govern.StagePublished, event)
	for _, g := range groups {
		k.step(g, g, govern.StageApplied, event)
	}
	return k
}

// wait makes the last step one that is due in a minute.
func (k *known) wait(note string, attempts int) *known {
	due := k.at.Add(time.Minute)
	last := &k.steps[len(k.steps)-1]
	last.NextAt, last.Note, last.Attempts = &due, note, attempts
	return k
}

func (k *known) letter(service, group, event, state string) *known {
	k.letters = append(k.letters, govern.DeadLetter{Service: service, Group: group, EventType: event, State: state, Reason: "it hangs"})
	return k
}

func (k *known) pause(service, kind, name string) *known {
	k.pauses = append(k.pauses, pause{service, settle.Control{Kind: kind, Name: name}})
	return k
}

func TestWhatAnOrderWaitsForIsNamed(t *testing.T) {
	created := func() *known { return knownOf(lifecycle.Created) }
	later := knownOf(lifecycle.Confirmed).sent("order", lifecycle.OrderCreated, "inventory", "risk")
	later.order.Pay = PayLater
	for name, c := range map[string]struct {
		known *known
		want  string
	}{
		"nothing known": {created(), "nothing is known of its events"},
		"in the outbox": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated), "order.created waits to be published"},
		"the timer is not waited for": {created().sent("order", lifecycle.OrderCreated, "inventory").step("order", "", govern.StageAppended, lifecycle.OrderPaymentDue),
			"order.created was published, risk has not taken it yet"},
		"one of two services": {created().sent("order", lifecycle.OrderCreated, "risk"), "order.created was published, inventory has not taken it yet"},
		"the oldest": {created().sent("order", lifecycle.OrderCreated, "inventory").sent("inventory", lifecycle.InventoryReserved),
			"order.created was published, risk has not taken it yet"},
		"the answer": {created().sent("order", lifecycle.OrderCreated, "inventory", "risk").step("inventory", "", govern.StageAppended, lifecycle.InventoryReserved),
			"inventory.reserved waits to be published"},
		"evidence of publishing is gone": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated).step("inventory", "inventory", govern.StageApplied, lifecycle.OrderCreated),
			"order.created was published, risk has not taken it yet"},
		"a retry": {created().sent("order", lifecycle.OrderCreated).step("risk", "risk", govern.StageParked, lifecycle.OrderCreated).wait("handler_error: no", 3),
			"order.created is tried again by risk at 2026-03-01T12:01:03Z after 3 attempts: handler_error: no"},
		"a retry of the relay": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated).step("order", "", govern.StageParked, lifecycle.OrderCreated).wait("publish_refused: no", 1),
			"order.created is tried again by the relay of order at 2026-03-01T12:01:02Z after 1 attempt: publish_refused: no"},
		"a dead letter": {created().sent("order", lifecycle.OrderCreated).letter("inventory", "inventory", lifecycle.OrderCreated, govern.StateOpen),
			"order.created is a dead letter at inventory: it hangs"},
		"a dead letter of a relay": {created().letter("order", "", lifecycle.OrderCreated, govern.StateOpen), "order.created is a dead letter at the relay of order: it hangs"},
		"a replay":                 {created().letter("risk", "risk", lifecycle.OrderCreated, govern.StateReplaying), "order.created is being replayed at risk"},
		"a compensation":           {created().letter("risk", "risk", lifecycle.OrderCreated, govern.StateCompensating), "order.created is being compensated at risk"},
		"one that is asked for":    {created().sent("order", lifecycle.OrderCreated, "inventory").step("risk", "risk", govern.StageCompensate, lifecycle.OrderCreated), "order.created was published, risk has not taken it yet"},
		"a completed order whose coupon is a dead letter": {knownOf(lifecycle.Completed).letter("marketing", "marketing", lifecycle.OrderPaid, govern.StateOpen),
			"order.paid is a dead letter at marketing: it hangs"},
		"a completed order with a retry": {knownOf(lifecycle.Completed).sent("order", lifecycle.OrderPaid, "fulfilment").step("marketing", "marketing", govern.StageParked, lifecycle.OrderPaid).wait("x", 1),
			"order.paid is tried again by marketing at"},
		"one that nobody has decided about": {created().letter("risk", "risk", lifecycle.OrderCreated, govern.StateReplaying).letter("inventory", "inventory", lifecycle.OrderCreated, govern.StateOpen),
			"order.created is a dead letter at inventory: it hangs"},
		"a completed order": {knownOf(lifecycle.Completed).sent("order", lifecycle.OrderPaid, "fulfilment", "marketing"), ""},
		"a completed order whose coupon nobody could ask for yet": {knownOf(lifecycle.Completed).sent("order", lifecycle.OrderPaid, "fulfilment"),
			"order.paid was published, marketing has not taken it yet"},
		"a cancelled order with a timer": {knownOf(lifecycle.Cancelled).step("order", "", govern.StageDelayed, lifecycle.OrderPaymentDue), ""},
		"a paused relay": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated).pause("order", "relay", ""),
			"order.created waits to be published; the relay of order is paused"},
		"a paused topic": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated).pause("order", "topic", "t"),
			"; the topic t is paused at the relay of order"},
		"a paused key at the relay": {created().step("order", "", govern.StageAppended, lifecycle.OrderCreated).pause("order", "key", "o-1"),
			"; the key of this order is paused at order"},
		"a paused group": {created().sent("order", lifecycle.OrderCreated, "inventory").pause("risk", "group", "risk"),
			"order.created was published, risk has not taken it yet; the group risk is paused"},
		"a paused key at a group": {created().sent("order", lifecycle.OrderCreated).step("risk", "risk", govern.StageParked, lifecycle.OrderCreated).pause("risk", "key", "risk/o-1"),
			"; the key of this order is paused at risk"},
		"held": {created().sent("order", lifecycle.OrderCreated, "inventory", "risk").sent("risk", lifecycle.RiskHeld).step("risk", "", govern.StageDelayed, lifecycle.RiskReviewDue).wait("", 0),
			"risk holds the order until 2026-03-01T12:01:07Z"},
		"held, the relay has not come to the timer": {created().sent("risk", lifecycle.RiskHeld).step("risk", "", govern.StageAppended, lifecycle.RiskReviewDue),
			"risk holds the order until it is reviewed"},
		"the review is due": {created().sent("risk", lifecycle.RiskHeld).sent("risk", lifecycle.RiskReviewDue), "risk.review_due was published, risk has not taken it yet"},
		"held once":         {created().sent("risk", lifecycle.RiskHeld).sent("risk", lifecycle.RiskApproved), "risk.approved was published, nobody has more to do with it"},
		"paid later":        {later, "its customer has until 2026-03-01T13:00:00Z to pay"},
	} {
		if got := c.known.waiting(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestWhatIsPausedElsewhereIsNotTheCause(t *testing.T) {
	k := knownOf(lifecycle.Created).sent("order", lifecycle.OrderCreated, "inventory").
		pause("order", "relay", "").pause("inventory", "group", "inventory").pause("risk", "key", "risk/o-2").pause("risk", "key", "o-1").pause("risk", "group", "risk2")
	if got := k.waiting(); got != "order.created was published, risk has not taken it yet" {
		t.Errorf("got %q", got)
	}
}

func TestAServiceThatDoesNotAnswerLeavesTheOrderUnsettled(t *testing.T) {
	k := knownOf(lifecycle.Completed)
	k.silent = []string{"marketing"}
	if got := k.waiting(); got != "not known: the marketing service does not answer" {
		t.Errorf("got %q", got)
	}
	k.letter("payment", "payment", lifecycle.OrderCancelled, govern.StateOpen)
	if got := k.waiting(); !strings.Contains(got, "is a dead letter at payment") {
		t.Errorf("what is known is not told: %q", got)
	}
}
