package shop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/govern"
)

// standing is what all services know of one order. What it waits for is told
// from that alone.
type standing struct {
	order   OrderStatus
	steps   []govern.Step       // of all events of its key, oldest first
	letters []govern.DeadLetter // that are open, or being replayed
	pauses  []pause
	silent  []string // services that did not answer
	// handles names the services that handle an event type.
	handles map[string][]string
}

// pause is what a person has paused at a service.
type pause struct {
	service string
	settle.Control
}

// ask adds what one service knows. All events of an order have its id as key,
// so each service finds its own part by it.
func (s *standing) ask(ctx context.Context, m *member) error {
	steps, err := m.db.Governance.Trail(ctx, s.order.OrderID)
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(t govern.Step) bool { return t.Key != s.order.OrderID })
	if slices.ContainsFunc(steps, func(t govern.Step) bool { return t.Stage == govern.StageDead }) {
		letters, err := m.db.Governance.DeadLetters(ctx, govern.Filter{Key: s.order.OrderID, State: "any"})
		if err != nil {
			return err
		}
		for _, d := range letters {
			if d.State == govern.StateOpen || d.State == govern.StateReplaying || d.State == govern.StateCompensating {
				d.Service = m.name
				s.letters = append(s.letters, d)
			}
		}
	}
	controls, err := m.db.Inbox.Controls(ctx)
	if err != nil {
		return err
	}
	for _, c := range controls.Rows {
		s.pauses = append(s.pauses, pause{m.name, c})
	}
	s.steps = append(s.steps, steps...)
	return nil
}

// waiting says what the order waits for, "" when it has settled: first what
// needs a person, then what is tried again, then what is on its way, and last
// what only time or the customer brings.
func (s *standing) waiting() string {
	open := slices.IndexFunc(s.letters, func(d govern.DeadLetter) bool { return d.State == govern.StateOpen })
	if len(s.letters) > 0 {
		return letterWaits(s.letters[max(open, 0)])
	}
	if len(s.silent) > 0 {
		return "not known: the " + s.silent[0] + " service does not answer"
	}
	if i := slices.IndexFunc(s.steps, func(t govern.Step) bool { return t.Stage == govern.StageParked }); i >= 0 {
		return s.retried(s.steps[i])
	}
	// Also of an order that has ended: while an outside system is away nobody
	// counts an attempt, and its coupon is missing all the same.
	if way := s.onItsWay(); way != "" || lifecycle.Final(s.order.Status) {
		return way
	}
	return s.forTime()
}

func letterWaits(d govern.DeadLetter) string {
	switch d.State {
	case govern.StateReplaying:
		return fmt.Sprintf("%s is being replayed at %s", d.EventType, place(d))
	case govern.StateCompensating:
		return fmt.Sprintf("%s is being compensated at %s", d.EventType, place(d))
	}
	return fmt.Sprintf("%s is a dead letter at %s: %s", d.EventType, place(d), d.Reason)
}

// place says where a dead letter is.
func place(d govern.DeadLetter) string {
	if d.Group == "" {
		return "the relay of " + d.Service
	}
	return d.Group
}

func (s *standing) retried(t govern.Step) string {
	who := t.Group
	if who == "" {
		who = "the relay of " + t.Service
	}
	text := fmt.Sprintf("%s is tried again by %s", t.EventType, who)
	if t.NextAt != nil {
		text += " at " + t.NextAt.UTC().Format(time.RFC3339)
	}
	attempts := "1 attempt"
	if t.Attempts != 1 {
		attempts = fmt.Sprintf("%d attempts", t.Attempts)
	}
	return fmt.Sprintf("%s after %s: %s%s", text, attempts, t.Note, s.paused(t.Service, t.Group))
}

// onItsWay names the oldest event that the broker does not have yet, or that a
// service has not taken yet.
func (s *standing) onItsWay() string {
	for _, t := range s.steps {
		if t.Stage != govern.StageAppended {
			continue
		}
		published := s.has(t.EventID, "", govern.StagePublished)
		if !published && (isTimer(t.EventType) || s.has(t.EventID, "", govern.StageDiscarded)) {
			continue
		}
		for _, group := range s.handles[t.EventType] {
			switch {
			case s.done(t.EventID, group):
				published = true
			case published:
				return fmt.Sprintf("%s was published, %s has not taken it yet%s", t.EventType, group, s.paused(group, group))
			}
		}
		if !published {
			return t.EventType + " waits to be published" + s.paused(t.Service, "")
		}
	}
	return ""
}

// isTimer tells events that wait for their time from those that wait for us.
func isTimer(eventType string) bool {
	return eventType == lifecycle.OrderPaymentDue || eventType == lifecycle.RiskReviewDue
}

// has reports whether a step of an event is there; an empty group is any.
func (s *standing) has(eventID, group, stage string) bool {
	return slices.ContainsFunc(s.steps, func(t govern.Step) bool {
		return t.EventID == eventID && t.Stage == stage && (group == "" || t.Group == group)
	})
}

// done reports whether a group is done with an event.
func (s *standing) done(eventID, group string) bool {
	asked := []string{govern.StageParked, govern.StageReplay, govern.StageCompensate}
	return slices.ContainsFunc(s.steps, func(t govern.Step) bool {
		return t.EventID == eventID && t.Group == group && !slices.Contains(asked, t.Stage)
	})
}

// paused says what a person has paused that holds the order up at a service:
// its relay when group is empty, else that group.
func (s *standing) paused(service, group string) string {
	key := s.order.OrderID
	if group != "" {
		key = group + "/" + key
	}
	for _, p := range s.pauses {
		switch {
		case p.service != service:
		case p.Kind == "key" && p.Name == key:
			return "; the key of this order is paused at " + service
		case p.Kind == "group" && group != "" && p.Name == group:
			return "; the group " + group + " is paused"
		case p.Kind == "relay" && group == "":
			return "; the relay of " + service + " is paused"
		case p.Kind == "topic" && group == "":
			return "; the topic " + p.Name + " is paused at the relay of " + service
		}
	}
	return ""
}

// forTime names what an order waits for that all services are level with.
func (s *standing) forTime() string {
	last := "nothing is known of its events"
	var held, review *govern.Step
	for i, t := range s.steps {
		switch {
		case t.EventType == lifecycle.RiskHeld:
			held = &s.steps[i]
		case t.EventType == lifecycle.RiskApproved || t.EventType == lifecycle.RiskRejected:
			held = nil
		case t.EventType == lifecycle.RiskReviewDue && t.Stage == govern.StageDelayed:
			review = &s.steps[i]
		}
		if !isTimer(t.EventType) {
			last = describe(t)
		}
	}
	switch {
	case held != nil && review != nil && review.NextAt != nil:
		return "risk holds the order until " + review.NextAt.UTC().Format(time.RFC3339)
	case held != nil:
		return "risk holds the order until it is reviewed"
	case s.order.Status == lifecycle.Confirmed && s.order.Pay == PayLater:
		return "its customer has until " + s.order.PayBy.Format(time.RFC3339) + " to pay"
	}
	return last
}

// describe says what is known last of an event.
func describe(t govern.Step) string {
	switch t.Stage {
	case govern.StageAppended:
		return t.EventType + " was appended by " + t.Service
	case govern.StagePublished:
		return t.EventType + " was published, nobody has more to do with it"
	case govern.StageDiscarded:
		return fmt.Sprintf("%s was discarded: %s", t.EventType, t.Note)
	}
	return fmt.Sprintf("%s was %s by %s", t.EventType, t.Stage, t.Group)
}
