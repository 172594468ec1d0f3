package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// attending is a member of a group whose partitions the broker assigns, as the
// store knows it.
type attending struct {
	owner   string
	expires time.Time
	hands   map[int][]string
}

func (x *inboxModel) attending(owner string) *attending {
	for _, a := range x.roll {
		if a.owner == owner {
			return a
		}
	}
	a := &attending{owner: owner, hands: map[int][]string{}}
	x.roll = append(x.roll, a)
	return a
}

// Attend implements settle.Inbox.
func (x *inboxModel) Attend(r settle.Attendance) (d settle.Departed) {
	now := x.w.dbNow()
	x.roll = slices.DeleteFunc(x.roll, func(a *attending) bool { return a.expires.Before(now.Add(-r.Remember)) })
	x.attending(r.Owner).expires = now.Add(r.TTL)
	for _, a := range x.roll {
		if now.Before(a.expires) {
			continue
		}
		d.Deaths++
		for _, slot := range slices.Sorted(maps.Keys(a.hands)) {
			d.InHand = append(d.InHand, a.hands[slot]...)
		}
	}
	if d.Deaths >= suspectAfter && len(d.InHand) > 0 {
		x.w.probes.hit("members that died had events in hand")
	}
	return d
}

// Hold implements settle.Inbox.
func (x *inboxModel) Hold(h settle.Hand) {
	x.attending(h.Owner).hands[h.Slot] = h.EventIDs
	x.w.probes.hit("events in hand written down")
}

// leave is Release for a member of such a group.
func (x *inboxModel) leave(owner string) {
	x.roll = slices.DeleteFunc(x.roll, func(a *attending) bool { return a.owner == owner })
}
