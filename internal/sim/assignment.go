package sim

import (
	"time"

	"github.com/settlemq/settle/consumer"
)

// A broker that assigns partitions itself keeps what each group has
// acknowledged, hands partitions of a silent member to others, and does not
// wait for that member to notice.

type brokerOffset struct {
	x      *inboxModel
	topic  string
	number int
	pos    int64
	member *consumerMember
	turn   int // counts changes of member
}

func (w *World) offset(x *inboxModel, topic string, number int) *brokerOffset {
	for _, o := range w.broker.offsets {
		if o.x == x && o.topic == topic && o.number == number {
			return o
		}
	}
	o := &brokerOffset{x: x, topic: topic, number: number}
	w.broker.offsets = append(w.broker.offsets, o)
	return o
}

// assign shares out the partitions of a group anew among the members that are
// there.
func (w *World) assign(x *inboxModel) {
	var members []*consumerMember
	for _, c := range w.consumers {
		if c.inbox == x && c.alive && !c.stopped && !c.ending {
			members = append(members, c)
		}
	}
	if len(members) == 0 {
		return
	}
	i := w.IntN(len(members))
	for _, t := range w.broker.topics {
		for n := range t.partitions {
			o, next := w.offset(x, t.name, n), members[i%len(members)]
			i++
			if before := o.member; before != nil && before != next {
				w.probes.hit("partition assigned to another member")
				life := before.life
				w.After(w.between(0, 50*time.Millisecond), func() {
					before.hear(life, func() { before.sub.revoke(o) })
				})
			}
			if o.member != next {
				o.member = next
				o.turn++
			}
			life := next.life
			w.After(w.CallTime, func() { next.hear(life, func() { next.sub.assigned(o) }) })
		}
	}
}

func (s *subscription) feedOf(o *brokerOffset) *feed {
	for _, f := range s.parts {
		if f.part.Topic == o.topic && f.part.Number == o.number {
			return f
		}
	}
	return nil
}

func (s *subscription) assigned(o *brokerOffset) {
	if o.member != s.c {
		return
	}
	f := s.feedOf(o)
	if !f.owned || f.turn != o.turn {
		f.owned, f.turn = true, o.turn
		s.readFrom(f, o.pos)
	}
	s.feed(f)
}

func (s *subscription) revoke(o *brokerOffset) {
	f := s.feedOf(o)
	if o.member == s.c || !f.owned {
		return
	}
	f.owned = false
	if f.inFlight != 0 {
		s.c.in(consumer.Withdrawn{ID: f.inFlight})
	}
}

// ackAssigned is an acknowledgement on its way to the broker; one of a former
// member is refused.
func (w *World) ackAssigned(c *consumerMember, f *feed) {
	pos := f.pos
	c.later(w.CallTime, func() {
		o := w.offset(c.inbox, f.part.Topic, f.part.Number)
		switch {
		case o.member != c || pos <= o.pos:
		case w.broker.down || c.cutOff:
			w.ackAssigned(c, f)
		default:
			o.pos = pos
			w.check.floor(c.inbox, o.topic, o.number, pos)
		}
	})
}

// rewind is the broker forgetting acknowledgements: records come again.
func (w *World) rewind() {
	for _, o := range w.broker.offsets {
		if !o.x.group.Rewinds || o.member == nil || !w.chance(0.5) {
			continue
		}
		w.probes.hit("acknowledgements forgotten")
		o.pos = max(0, o.pos-int64(w.from(1, 8)))
		o.member.sub.feedOf(o).owned = false
		life, m := o.member.life, o.member
		w.After(w.CallTime, func() { m.hear(life, func() { m.sub.assigned(o) }) })
	}
}
