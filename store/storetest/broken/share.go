package broken

import (
	"slices"

	"github.com/settlemq/settle/relay"
)

func brokenShares() map[string]breaking {
	return map[string]breaking{
		"a delayed row of several destinations stays for those that have not got it":  committed(alone),
		"a late row of several destinations stays for those that have not got it":     committed(alone),
		"a late row moves to be delayed for one of its destinations, or to be parked": committed(alone),
		"a skip is over when the last destination has passed the event":               committed(alone),
		"an event that is parked for several destinations has one status, the worst":  committed(firstOnly),
		"dead letters of one event are replayed and discarded by destination":         committed(firstOnly),
		"where each broker has an event is kept":                                      committed(firstOnly),
		"a row that one of its destinations waits for is not deleted":                 committed(oneReader),
	}
}

// alone takes each row for one of an event that goes nowhere else.
func alone(f *relay.Flush) {
	for i := range f.Sent {
		f.Sent[i].Share = nil
	}
	for i := range f.Park {
		f.Park[i].Share = nil
	}
	for i := range f.Delay {
		f.Delay[i].Share = nil
	}
	for i := range f.Skip {
		f.Skip[i].Share = nil
	}
}

// firstOnly writes what became of a row at one of its destinations.
func firstOnly(f *relay.Flush) {
	f.Sent = slices.CompactFunc(f.Sent, func(a, b relay.Sent) bool { return a.ID == b.ID })
	f.Park = slices.CompactFunc(f.Park, func(a, b relay.Park) bool { return a.ID == b.ID })
	f.Dead = slices.CompactFunc(f.Dead, func(a, b relay.Death) bool { return a.ID == b.ID })
}
