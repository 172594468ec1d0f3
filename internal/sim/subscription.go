package sim

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// subscription is the broker's side of one member: it delivers the records of
// each partition in order, one delivery at a time, and again after an error.
type subscription struct {
	c     *consumerMember
	parts []*feed
	last  consumer.DeliveryID
}

// feed is one partition that the member reads, now or earlier.
type feed struct {
	part     settle.Partition
	owned    bool
	turn     int
	expires  time.Time // by the process's clock
	pos      int64
	inFlight consumer.DeliveryID
	lastPos  int64 // of the delivery in flight
	lastID   string
	resetTo  int64 // where to read from once the delivery in flight is answered; -1: nowhere
}

func newSubscription(c *consumerMember) *subscription { return &subscription{c: c} }

func (s *subscription) begin() {
	s.parts = nil
	for _, t := range s.c.w.broker.topics {
		for n := range t.partitions {
			s.parts = append(s.parts, &feed{part: settle.Partition{Topic: t.name, Number: n}, resetTo: -1})
		}
	}
	if !s.c.inbox.group.Owned {
		s.c.w.assign(s.c.inbox)
		return
	}
	for _, t := range s.c.w.broker.topics {
		s.c.later(s.c.w.between(0, 10*time.Millisecond), func() { s.claim(t) })
	}
}

const claimTTL = 600 * time.Millisecond

// claim takes and renews partitions, about every third of the lease.
func (s *subscription) claim(t *topicLog) {
	c := s.c
	asked, owner := c.now(), c.owner
	var claims []settle.Claim
	c.call(func() error {
		claims = c.inbox.Claim(settle.ClaimRequest{Group: c.inbox.group.Name, Topic: t.name, Owner: owner, Partitions: len(t.partitions), TTL: claimTTL})
		return nil
	}, func(err error) {
		if err == nil && !c.ending {
			s.claimed(t, claims, asked.Add(claimTTL))
		}
		c.later(claimTTL/3, func() {
			if !c.ending {
				s.claim(t)
			}
		})
	})
}

func (s *subscription) claimed(t *topicLog, claims []settle.Claim, expires time.Time) {
	life := s.c.life
	for _, f := range s.parts {
		if f.part.Topic != t.name {
			continue
		}
		var mine *settle.Claim
		for i := range claims {
			if claims[i].Partition.Number == f.part.Number {
				mine = &claims[i]
			}
		}
		switch {
		case mine != nil:
			mine.Expires = expires
			s.own(f, *mine)
		case f.owned:
			s.lose(f)
		}
		if s.c.life != life || !s.c.alive {
			return
		}
	}
}

func (s *subscription) own(f *feed, claim settle.Claim) {
	anew := !f.owned || f.part.Epoch != claim.Partition.Epoch
	f.owned, f.expires = true, claim.Expires
	if anew {
		f.part = claim.Partition
		s.readFrom(f, claim.Floor.Position)
	}
	s.c.in(consumer.Claimed{Claim: claim})
	s.feed(f)
	at := f.expires
	s.c.alarm(at, func() bool { return f.owned && f.expires.Equal(at) }, func() { s.lose(f) })
}

// readFrom moves the position, after the delivery in flight if there is one.
func (s *subscription) readFrom(f *feed, pos int64) {
	if f.inFlight == 0 {
		f.pos = pos
		return
	}
	f.resetTo = pos
	s.c.in(consumer.Withdrawn{ID: f.inFlight})
}

func (s *subscription) lose(f *feed) {
	f.owned = false
	s.c.w.probes.hit("partition lost")
	s.c.in(consumer.Lost{Topic: f.part.Topic, Number: f.part.Number})
}

// poke tells that there may be records.
func (s *subscription) poke() {
	c := s.c
	if !c.alive {
		return
	}
	c.later(c.w.CallTime/2, func() {
		for _, f := range s.parts {
			s.feed(f)
		}
	})
}

// feed delivers the next records of a partition, if it may.
func (s *subscription) feed(f *feed) {
	c := s.c
	if !c.alive || c.ending || !f.owned || f.inFlight != 0 || c.cutOff || c.w.broker.down {
		return
	}
	records := c.w.broker.topic(f.part.Topic).after(f.part.Number, f.pos, c.inbox.group.BatchRows+1, 1<<10)
	if len(records) == 0 {
		return
	}
	s.last++
	last := records[len(records)-1]
	f.inFlight, f.lastPos, f.lastID = s.last, last.Position, recordID(&last)
	c.mayDie()
	c.w.hist.note(c.w.Since(), c.name, "gets", f.part.Topic, f.part.Number, records[0].Position, last.Position, f.part.Epoch)
	c.in(consumer.Delivered{ID: s.last, Partition: f.part, Records: records})
}

// completed is the end of a delivery.
func (s *subscription) completed(cmd consumer.Complete) {
	var f *feed
	for _, p := range s.parts {
		if p.inFlight == cmd.ID {
			f = p
		}
	}
	if f == nil {
		s.c.w.fail("every delivery is answered once", "%s answers delivery %d, which is not open", s.c.name, int64(cmd.ID))
	}
	f.inFlight = 0
	c := s.c
	wait := time.Duration(0)
	switch {
	case f.resetTo >= 0:
		f.pos, f.resetTo = f.resetTo, -1
	case cmd.Err == nil:
		f.pos = f.lastPos
		c.w.check.acked(c.inbox, f)
		if !c.inbox.group.Owned {
			c.w.ackAssigned(c, f)
		}
	default:
		if errors.Is(cmd.Err, settle.ErrFenced) {
			f.owned = f.owned && !c.inbox.group.Owned
		}
		c.w.probes.hit("delivery answered with an error")
		wait = 20 * time.Millisecond
	}
	c.later(wait, func() { s.feed(f) })
}

// withdraw ends every delivery as a lost connection does; records come again.
func (s *subscription) withdraw() {
	for _, f := range s.parts {
		if f.inFlight != 0 && f.resetTo < 0 {
			f.resetTo = f.pos
			s.c.w.probes.hit("delivery withdrawn")
			s.c.in(consumer.Withdrawn{ID: f.inFlight})
		}
	}
}
