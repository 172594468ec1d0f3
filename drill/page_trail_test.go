package drill

import (
	"slices"
	"strings"
	"testing"
)

func trailsOf(t *testing.T, path string, r *Report, change string) []trail {
	t.Helper()
	f, err := OpenFacts(t.Context(), t.TempDir()+"/f.sqlite")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	copyFacts(t, f, path)
	plant(t, f, change)
	all, err := f.trails(t.Context(), r, r.Began.UnixMicro())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func titles(all []trail) string {
	var words []string
	for _, t := range all {
		words = append(words, t.Title)
	}
	return strings.Join(words, ", ")
}

func TestTheThreeMostInstructiveTrailsAreToldEachOfAnotherOrder(t *testing.T) {
	path, r := shopFacts(t, 400)
	for change, want := range map[string]string{
		"":                                    "Repaired by a replay, Money that came too late went back, Retried until it worked",
		"UPDATE dead_letter SET state='OPEN'": "Money that came too late went back, Retried until it worked, Sent twice, applied once",
		"DELETE FROM dead_letter; DELETE FROM outbox WHERE event_type='payment.refunded'": "Retried until it worked, Sent twice, applied once, Cancelled, and nothing is left of it",
		"DELETE FROM dead_letter; DELETE FROM outbox; DELETE FROM inbox":                  "The slowest order",
		"DELETE FROM orders": "",
	} {
		all := trailsOf(t, path, r, change)
		if got := titles(all); got != want {
			t.Errorf("%s: got %s; want %s", change, got, want)
		}
		for i, a := range all {
			for _, b := range all[:i] {
				if a.Order == b.Order {
					t.Errorf("%s: %s is told twice", change, a.Order)
				}
			}
		}
	}
}

func TestATrailTellsInOrderWhatHappenedWhereAndWhy(t *testing.T) {
	path, r := shopFacts(t, 400)
	all := trailsOf(t, path, r, "")
	for i, want := range [][]trailLine{
		{
			{Kind: lineCommit, Who: "order", What: "committed order.created"},
			{Kind: lineApply, Who: "inventory", What: "applied order.created and emitted inventory.reserved"},
			{Kind: lineOutside, Who: "provider", What: "capture of "},
			{Kind: lineDead, Who: "marketing", What: "gave up on order.paid", Note: "4 attempts, handler_error: coupon system"},
			{Kind: lineRepair, Who: "demo", What: "replay of order.paid at marketing", Note: "answers again"},
			{Kind: lineApply, Who: "marketing", What: "applied order.paid and emitted marketing.granted", Where: "order-domain-event["},
		},
		{
			{Kind: lineCommit, What: "committed order.cancelled"},
			{Kind: lineApply, Who: "payment", What: "applied order.cancelled and emitted payment.refunded"},
			{Kind: lineQuiet, Who: "marketing", What: "applied order.cancelled"},
		},
		{
			{Kind: lineApply, Who: "fulfilment", What: "emitted fulfilment.shipped", Note: "attempt 4"},
		},
	} {
		lines := all[i].Lines
		if !slices.IsSortedFunc(lines, func(a, b trailLine) int { return int((a.At - b.At) * 1e6) }) {
			t.Errorf("%s is not in the order of time", all[i].Title)
		}
		for _, w := range want {
			at := slices.IndexFunc(lines, func(l trailLine) bool {
				return l.Kind == w.Kind && strings.Contains(l.Who, w.Who) && strings.Contains(l.What, w.What) && strings.Contains(l.Where, w.Where) && strings.Contains(l.Note, w.Note)
			})
			if at < 0 {
				t.Errorf("%s has no line like %+v: %+v", all[i].Title, w, lines)
				break
			}
			lines = lines[at+1:]
		}
	}
}

func TestATrailNamesTheFaultsThatHitMeanwhile(t *testing.T) {
	lines := []trailLine{{At: 0}, {At: 2}}
	marks := []Mark{{"pause", 1, 4}, {"relay-kill", 6, 6}, {"broker-cut", 8, 9}, {MarkRepair, 6, 6}}
	got := meanwhile(marks, 5, lines)
	if len(got) != 1 || got[0].What != "relay-kill" || got[0].At != 1 {
		t.Errorf("%+v", got)
	}
	for range 9 {
		marks = append(marks, Mark{"duplicate", 5.5, 5.5})
	}
	if got := meanwhile(marks, 5, lines); len(got) != 1 || !strings.Contains(got[0].Note, "duplicate 9×") || !strings.HasPrefix(got[0].What, "10 faults") {
		t.Errorf("%+v", got)
	}
}
