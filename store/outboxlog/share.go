package outboxlog

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/settlemq/settle/relay"
)

// Leaving is a row of t_outbox_delayed or t_outbox_extra that some of its
// destinations are done with.
type Leaving struct {
	From relay.Origin
	ID   int64
	// owed is what the relay has read, done are those that it leaves for.
	owed, done []string
}

// LeavingOf returns the rows that a flush takes out of the two tables for one
// destination or more of several, in the order of their tables and ids.
func LeavingOf(f *relay.Flush) []Leaving {
	var all []Leaving
	add := func(from relay.Origin, id int64, destination string, s *relay.Share) {
		if !LeavesShare(from, s) {
			return
		}
		i, known := slices.BinarySearchFunc(all, Leaving{From: from, ID: id}, func(a, b Leaving) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID))
		})
		if !known {
			all = slices.Insert(all, i, Leaving{From: from, ID: id, owed: s.Owed})
		}
		all[i].done = append(all[i].done, destination)
	}
	for _, r := range f.Sent {
		add(r.From, r.ID, r.Destination, r.Share)
	}
	for _, r := range f.Park {
		add(r.From, r.ID, r.Destination, r.Share)
	}
	for _, r := range f.Delay {
		add(r.From, r.ID, r.Destination, r.Share)
	}
	for _, r := range f.Skip {
		add(r.From, r.ID, r.Destination, r.Share)
	}
	return all
}

// LeavesShare reports whether a row leaves its side table for one destination of
// those that it is owed to, and not wholly.
func LeavesShare(from relay.Origin, s *relay.Share) bool {
	return s != nil && s.Owed != nil && (from == relay.FromDelayed || from == relay.FromExtra)
}

// Rest returns which destinations are left. recorded is what the table says, nil
// where it says nothing.
func (l Leaving) Rest(recorded []string) []string {
	if recorded == nil {
		recorded = l.owed
	}
	return slices.DeleteFunc(slices.Clone(recorded), func(name string) bool { return slices.Contains(l.done, name) })
}

// Joined returns what a delayed row is owed to when it is delayed for one
// destination more. there is its destination, "" where there is no such row yet.
func Joined(recorded []string, there, destination string) []string {
	owed := slices.Clone(recorded)
	if owed == nil && there != "" {
		owed = []string{there}
	}
	if !slices.Contains(owed, destination) {
		owed = append(owed, destination)
	}
	return owed
}

// IsOver reports whether a flush may say that an event is done with, as far as
// the log goes: no other destination is still to take it from there. beside is
// true where side tables must be asked too.
func IsOver(s *relay.Share) (over, beside bool) {
	return s == nil || !s.Pending, s != nil
}

// HasLists reports whether events may go to several destinations by the routes of
// a position. Of a row that a lane has dealt with it is not known then at which:
// one that read for itself may have come to it when others had given its id up.
func HasLists(readers []relay.Reader) bool {
	return slices.ContainsFunc(readers, func(r relay.Reader) bool {
		return slices.ContainsFunc(r.Routing, func(l relay.Routing) bool {
			return slices.ContainsFunc(l.Routes, func(route relay.Route) bool { return route.Also })
		})
	})
}

// PackOwed and UnpackOwed are for databases that keep them as JSON.
func PackOwed(owed []string) string {
	packed, err := json.Marshal(owed)
	if err != nil { // texts always encode
		return "[]"
	}
	return string(packed)
}

// UnpackOwed is the reverse of PackOwed; nothing gives nil.
func UnpackOwed(packed string) (owed []string, err error) {
	if packed == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(packed), &owed)
	return owed, err
}
