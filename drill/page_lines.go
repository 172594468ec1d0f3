package drill

import (
	"fmt"
	"strings"
)

// Kinds of a trail's lines, which the style sheet knows.
const (
	lineCommit  = "commit"
	lineApply   = "apply"
	lineQuiet   = "quiet" // applied, and nothing followed
	lineLate    = "late"  // acknowledged by the broker long after its commit
	lineOutside = "outside"
	lineDead    = "dead"
	lineRepair  = "repair"
	lineFault   = "fault"
)

// trailLine is one thing that happened to an order.
type trailLine struct {
	At    float64 // seconds since the order was placed
	Kind  string
	Who   string // a service, an outside system, a person, the drill
	What  string
	Where string // topic[partition]@offset, and when it was there
	Note  string
}

// slow is from how many seconds on a publication gets a line of its own.
const slow = 0.5

// lines tells the steps as they would be read aloud, in no order. Times count
// from a microsecond.
func (s steps) lines(placed int64) []trailLine {
	since := func(us int64) float64 { return float64(us-placed) / 1e6 }
	all := s.reactions(since)
	for _, e := range s.events {
		if late := e.late(); late >= slow {
			all = append(all, trailLine{At: since(e.sent.Int64), Kind: lineLate, Who: plain(e.service), What: "knows that " + plain(e.event) + " is published", Where: plain(e.where), Note: span(late) + " late"})
		}
	}
	all = append(all, s.quiet(since)...)
	for _, e := range s.outside {
		l := trailLine{At: since(e.at), Kind: lineOutside, Who: plain(e.system), What: plain(e.kind)}
		if e.amount != 0 {
			l.What += " of " + e.amount.String()
		}
		l.Note = "in its own books"
		all = append(all, l)
	}
	for _, d := range s.letters {
		all = append(all, trailLine{At: since(d.at), Kind: lineDead, Who: plain(d.group), What: "gave up on " + plain(d.event) + ": a dead letter",
			Note: fmt.Sprintf("%s, %s: %s", times(d.attempts, "attempt"), plain(d.class), plain(d.reason))})
	}
	for _, a := range s.acts {
		all = append(all, trailLine{At: since(a.at), Kind: lineRepair, Who: plain(a.actor),
			What: fmt.Sprintf("%s of %s at %s", strings.TrimPrefix(plain(a.action), "dlq."), plain(a.event), plain(a.group)), Note: "“" + plain(a.reason) + "”"})
	}
	return all
}

// reactions tells each event together with what led to it.
func (s steps) reactions(since func(int64) float64) []trailLine {
	var all []trailLine
	told := map[string]bool{}
	for _, a := range s.applied {
		for i, e := range s.causedBy(a) {
			told[e.id] = true
			l := s.emitted(e, since)
			l.Kind, l.What = lineApply, fmt.Sprintf("applied %s and emitted %s", plain(s.eventOf(a.id)), plain(e.event))
			if i == 0 {
				l.Note = joinNotes(hardships(a), l.Note)
			}
			all = append(all, l)
		}
	}
	for _, e := range s.events {
		if told[e.id] {
			continue
		}
		l := s.emitted(e, since)
		l.Kind, l.What = lineCommit, "committed "+plain(e.event)
		all = append(all, l)
	}
	return all
}

// emitted is the line of an event: when and where it became one.
func (s steps) emitted(e emission, since func(int64) float64) trailLine {
	l := trailLine{At: since(e.created), Who: plain(e.service)}
	if e.due > e.created {
		l.Note = "to be published after " + span(since(e.due)-since(e.created))
	}
	switch {
	case !e.sent.Valid:
		l.Note = joinNotes(l.Note, "not published")
	case e.late() < slow:
		l.Where = plain(e.where) + " after " + span(since(e.sent.Int64)-since(e.created))
	}
	if again := e.copies - e.planted - 1; again > 0 {
		l.Note = joinNotes(l.Note, "sent and stored again "+times(again, "time"))
	}
	if e.planted > 0 {
		l.Note = joinNotes(l.Note, "doubled by the drill "+times(e.planted, "time"))
	}
	return l
}

// quiet tells what was done with an event and led to nothing further, a line
// for each event and each outcome.
func (s steps) quiet(since func(int64) float64) []trailLine {
	var all []trailLine
	for _, e := range s.events {
		lines := map[string]int{} // by outcome
		for _, a := range s.applied {
			if a.id != e.id || a.status == "DEAD" || len(s.causedBy(a)) > 0 {
				continue
			}
			at, ok := lines[a.status]
			if !ok {
				at = len(all)
				lines[a.status] = at
				all = append(all, trailLine{At: since(a.at), Kind: lineQuiet, Who: plain(a.group), What: outcome(a.status) + " " + plain(e.event)})
			} else {
				all[at].Who += ", " + plain(a.group)
			}
			if h := hardships(a); h != "" {
				all[at].Note = joinNotes(all[at].Note, plain(a.group)+" at "+h)
			}
		}
	}
	return all
}

func outcome(status string) string {
	if status == "SUCCESS" {
		return "applied"
	}
	return strings.ToLower(plain(status))
}

// hardships says how many attempts an application took, if not one.
func hardships(a application) string {
	if a.attempts > 1 {
		return fmt.Sprintf("attempt %d", a.attempts)
	}
	return ""
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
