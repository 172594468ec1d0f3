package sim

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// Due implements settle.Inbox: due rows and what follows them in their key.
func (x *inboxModel) Due(limit int) settle.Due {
	var due settle.Due
	now := x.w.dbNow()
	seen := map[int64]bool{}
	for i, head := range x.retry {
		switch {
		case head.dead || head.nextAt.IsZero() || seen[head.id]:
			continue
		case head.nextAt.After(now):
			due.Next = earlier(due.Next, head.nextAt)
			continue
		}
		for _, r := range x.retry[i:] {
			if r != head && (!head.blocking || r.key != head.key || !r.blocking) {
				continue
			}
			if r.dead || r.nextAt.After(now) || seen[r.id] {
				break
			}
			if len(due.Items) == limit {
				due.Next = now
				return due
			}
			seen[r.id] = true
			due.Items = append(due.Items, settle.Item{
				Record: r.item.Record, RetryID: r.id, Attempt: r.item.Attempt, NextAt: r.nextAt,
				Class: r.item.Class, Cause: r.item.Cause, AcceptDuplicate: r.accept, Compensate: r.item.Compensate,
			})
		}
	}
	return due
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Claim implements settle.Inbox: members split a topic's partitions evenly,
// the first ones in order of name take what is left over.
func (x *inboxModel) Claim(r settle.ClaimRequest) []settle.Claim {
	now := x.w.dbNow()
	share := x.join(r, now)
	var claims []settle.Claim
	for _, own := range []bool{true, false} {
		for _, p := range x.parts {
			free := p.owner == "" || !now.Before(p.expires)
			switch {
			case p.topic != r.Topic || own != (p.owner == r.Owner):
				continue
			case own && share == 0:
				x.release(p)
				continue
			case share == 0 || (!own && !free):
				continue
			case !own:
				x.takeover(p, r.Owner)
			}
			share--
			p.expires = now.Add(r.TTL)
			claims = append(claims, settle.Claim{
				Partition: settle.Partition{Topic: p.topic, Number: p.number, Owner: p.owner, Epoch: p.epoch, Generation: x.w.broker.topic(p.topic).generation},
				Floor:     p.floor, Deaths: p.deaths,
			})
		}
	}
	return claims
}

// join renews a membership and returns the member's share.
func (x *inboxModel) join(r settle.ClaimRequest, now time.Time) int {
	x.members = slices.DeleteFunc(x.members, func(m member) bool {
		return m.topic == r.Topic && (m.owner == r.Owner || !now.Before(m.expires))
	})
	x.members = append(x.members, member{r.Topic, r.Owner, now.Add(r.TTL)})
	rank, n := 0, 0
	for _, m := range x.members {
		if m.topic == r.Topic {
			n++
			if m.owner < r.Owner {
				rank++
			}
		}
	}
	share := r.Partitions / n
	if rank < r.Partitions%n {
		share++
	}
	return share
}

func (x *inboxModel) takeover(p *ownedPart, owner string) {
	switch {
	case p.owner == "":
		p.deaths = 0
	case p.floor.Position == p.claimed:
		p.deaths++
		x.w.probes.hit("owner died without progress")
	default:
		p.deaths = 0
	}
	if p.owner != "" {
		x.w.probes.hit("partition taken over")
	}
	p.owner, p.epoch, p.claimed = owner, p.epoch+1, p.floor.Position
	x.w.hist.note(x.w.Since(), x.group.Name, "owner", p.topic, p.number, owner, p.epoch)
}

func (x *inboxModel) release(p *ownedPart) { p.owner, p.deaths, p.claimed = "", 0, p.floor.Position }

// Release implements settle.Inbox.
func (x *inboxModel) Release(owner string) {
	x.leave(owner)
	x.members = slices.DeleteFunc(x.members, func(m member) bool { return m.owner == owner })
	for _, p := range x.parts {
		if p.owner == owner {
			x.release(p)
		}
	}
}

// Forget implements settle.Inbox: the floor moves and the rows below it go in
// one transaction.
func (x *inboxModel) Forget(before time.Time, limit int) int {
	if before.After(x.floor) {
		x.floor = before
	}
	n := 0
	for _, id := range x.w.eventIDs {
		row := x.log[id]
		if row != nil && n < limit && row.status.final() && row.appended.Before(x.floor) {
			delete(x.log, id)
			n++
			x.w.probes.hit("log row forgotten")
		}
	}
	return n
}

// Replay is a person making a dead letter due again, from its first attempt.
func (x *inboxModel) Replay(l *letter, accept bool) {
	l.open = false
	x.w.probes.hit("dead letter replayed")
	x.w.hist.note(x.w.Since(), "operator", "replays", x.group.Name, l.eventID)
	now := x.w.dbNow()
	if r := x.retryByID(l.retryID); r != nil {
		next := *r
		next.dead, next.replays, next.accept, next.nextAt = false, r.replays+1, accept, now
		next.item.Attempt, next.item.Intent, next.item.Compensate = 0, settle.IntentHandle, false
		x.put(next)
	} else {
		e := l.record.Event
		x.put(retryRow{
			eventID: l.eventID, key: e.AggregateID, seq: e.AggregateSeq, item: settle.Item{Record: l.record, Class: l.class},
			replays: 1, accept: accept, nextAt: now, parked: now,
		})
	}
	x.setLog(l.eventID, logParked, l.record.Event.AppendedAt)
	x.undo = x.undo[:0]
}

// Compensate is a person giving up on a dead letter that holds its key: its
// compensation is due.
func (x *inboxModel) Compensate(l *letter) {
	r := x.retryByID(l.retryID)
	if r == nil {
		x.Replay(l, true)
		return
	}
	l.open = false
	x.w.probes.hit("dead letter given up")
	x.w.hist.note(x.w.Since(), "operator", "gives up", x.group.Name, l.eventID)
	next := *r
	next.dead, next.replays, next.nextAt = false, r.replays+1, x.w.dbNow()
	next.item.Attempt, next.item.Intent, next.item.Compensate = 0, settle.IntentHandle, true
	x.put(next)
	x.setLog(l.eventID, logParked, l.record.Event.AppendedAt)
	x.undo = x.undo[:0]
}

// Discard is a person closing a dead letter for good.
func (x *inboxModel) Discard(l *letter) {
	l.open = false
	x.w.probes.hit("dead letter discarded")
	x.w.hist.note(x.w.Since(), "operator", "discards", x.group.Name, l.eventID)
	if r := x.retryByID(l.retryID); r != nil {
		if e := r.item.Record.Event; e != nil && x.group.OrderedBySeq && e.AggregateSeq == x.seqs[e.AggregateID]+1 {
			x.advance(e)
		}
		x.remove(r.id)
		x.promote(r.key)
	}
	x.setLog(l.eventID, logDiscarded, x.w.dbNow())
	x.undo = x.undo[:0]
}

// Order is a person pausing or resuming something.
func (x *inboxModel) Order(c settle.Control, paused bool) {
	x.ctrl.Version++
	x.ctrl.Rows = slices.DeleteFunc(slices.Clone(x.ctrl.Rows), func(o settle.Control) bool { return o == c })
	if paused {
		x.ctrl.Rows = append(x.ctrl.Rows, c)
	}
	x.w.hist.note(x.w.Since(), "operator", "orders", x.group.Name, c.Kind, c.Name, paused)
}
