package drill

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pageWords are what the template can say.
var pageWords = template.FuncMap{
	"meaning": func(fault string) string { return faultMeanings[fault] },
	"number":  number, "span": span, "plain": plain, "rate": rate, "money": money,
	"clock":   func(s float64) string { return fmt.Sprintf("%.1f s", s) },
	"offset":  func(s float64) string { return fmt.Sprintf("+%.3f s", s) },
	"percent": func(p float64) string { return strconv.FormatFloat(p, 'f', 2, 64) },
	"until":   func(m Mark) string { return span(m.Until - m.At) },
	"edge":    func(h histogram, i int) string { return span(h.Edges[i]) },
	"at":      func(c curve, i int) string { return fmt.Sprintf("%.2f", float64(i)*c.Step) },
}

// tile is one key number.
type tile struct {
	Label, Value, Note string
	Tone               string // words for the style sheet
}

func tiles(r *Report) []tile {
	o, e, d, m := r.Orders, r.Events, r.Deliveries, r.Money
	return []tile{
		{Label: "orders accepted", Value: number(o.Accepted), Note: rate(r.OrdersPerSecond) + " per second; " + number(o.Refused) + " refused"},
		{Label: "completed", Value: number(o.Completed), Note: share(o.Completed, o.Accepted)},
		{Label: "cancelled", Value: number(o.Cancelled), Note: reasons(o.CancelledFor)},
		{Label: "unsettled", Value: number(o.Unsettled), Note: "neither ended nor explained", Tone: tone(o.Unsettled == 0)},
		{Label: "money, net", Value: money(m.Net), Note: money(m.Captured) + " taken, " + money(m.Refunded) + " given back; the completed orders cost " + money(m.Completed), Tone: moneyTone(r) + " double"},
		{Label: "duration", Value: span(r.Duration), Note: "until all had settled"},
		{Label: "events", Value: number(e.Published), Note: "published of " + number(e.Appended) + " committed", Tone: tone(e.Published == e.Appended)},
		{Label: "published again", Value: number(e.PublishedAgain), Note: "further copies in the broker's log"},
		{Label: "effects", Value: number(d.Applied), Note: "applied once each, of " + number(d.Received) + " deliveries"},
		{Label: "duplicates", Value: number(d.Duplicate), Note: "deliveries recognised, without effect"},
		{Label: "retries", Value: number(d.Retried), Note: "further attempts of handlers"},
		{Label: "dead letters", Value: number(d.Dead), Note: letterWords(r), Tone: tone(r.DeadLettersOpen == r.DeadLettersLeft)},
		{Label: "seed", Value: strconv.FormatUint(r.Seed, 10), Note: "repeats the schedule of faults"},
	}
}

// reasons lists what ended orders, the most frequent first.
func reasons(counts map[string]int64) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = plain(kind) + " " + number(counts[kind])
	}
	return strings.Join(kinds, ", ")
}

func letterWords(r *Report) string {
	switch {
	case r.DeadLettersOpen == 0:
		return "all of them repaired"
	case r.DeadLettersOpen == r.DeadLettersLeft:
		return number(r.DeadLettersOpen) + " left open on purpose"
	}
	return number(r.DeadLettersOpen) + " open, " + number(r.DeadLettersLeft) + " were to be"
}

// moneyTone leaves open what open dead letters may explain; an invariant knows.
func moneyTone(r *Report) string {
	if r.Money.Net != r.Money.Completed && r.DeadLettersOpen > 0 {
		return ""
	}
	return tone(r.Money.Net == r.Money.Completed)
}

func tone(good bool) string {
	if good {
		return "good"
	}
	return "bad"
}

func verdict(r *Report, failures int) string {
	switch {
	case !r.Settled():
		return "Proof fails: not everything settled in time."
	case failures > 0:
		return "Proof fails: " + times(failures, "thing") + " found that must not be."
	}
	return "Proof holds: nothing lost, nothing doubled, nothing out of order."
}

// story says in a sentence what was done to the system.
func story(r *Report) string {
	hits, kinds := 0, 0
	for _, f := range r.Faults {
		if hits += f.Times; f.Times > 0 {
			kinds++
		}
	}
	placed := fmt.Sprintf("%s orders in %s", number(r.Orders.Accepted), span(r.Duration))
	if hits == 0 {
		return placed + ", without faults."
	}
	return fmt.Sprintf("%s, while %s of %s hit the processes.", placed, times(hits, "fault"), times(kinds, "kind"))
}

// number writes n with commas between thousands.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// span writes seconds as a person would, with three digits at most.
func span(s float64) string {
	switch {
	case s < 0:
		return "-" + span(-s)
	case s < 0.9995:
		return strconv.FormatFloat(s*1000, 'f', decimals(s*1000), 64) + " ms"
	case s < 120:
		return strconv.FormatFloat(s, 'f', decimals(s), 64) + " s"
	}
	return time.Duration(math.Round(s) * float64(time.Second)).String()
}

// decimals is how many of them leave three digits.
func decimals(x float64) int {
	switch {
	case x >= 99.5:
		return 0
	case x >= 9.95:
		return 1
	}
	return 2
}

func times(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return number(int64(n)) + " " + of + "s"
}

func share(part, of int64) string {
	if of == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(part)/float64(of), 'f', 1, 64) + " % of the accepted"
}

// rate writes how many per second.
func rate(r float64) string { return strconv.FormatFloat(r, 'f', decimals(r), 64) }

// money writes an amount with commas between thousands.
func money(c Cents) string {
	digits := c.String()
	whole, cents, _ := strings.Cut(strings.TrimPrefix(digits, "-"), ".")
	n, _ := strconv.ParseInt(whole, 10, 64)
	if c < 0 {
		return "-" + number(n) + "." + cents
	}
	return number(n) + "." + cents
}
