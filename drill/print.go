package drill

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Print writes the proof as plain text.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
	o, e, d := r.Orders, r.Events, r.Deliveries
	p("orders\t%d accepted, %d completed, %d cancelled%s, %d unsettled; %d refused", o.Accepted, o.Completed, o.Cancelled, o.why(), o.Unsettled, o.Refused)
	p("money\t%s taken, %s given back: %s is left; the completed orders cost %s", r.Money.Captured, r.Money.Refunded, r.Money.Net, r.Money.Completed)
	p("events\t%d appended, %d published, %d published again", e.Appended, e.Published, e.PublishedAgain)
	p("deliveries\t%d received: %d applied, %d duplicate, %d ignored, %d rejected; %d retried, %d dead letters, %d of them open",
		d.Received, d.Applied, d.Duplicate, d.Ignored, d.Rejected, d.Retried, d.Dead, r.DeadLettersOpen)
	if len(r.Faults) > 0 {
		words := make([]string, len(r.Faults))
		for i, f := range r.Faults {
			words[i] = fmt.Sprintf("%s %d×", f.Name, f.Times)
		}
		p("faults\t%s", strings.Join(words, ", "))
	}
	p("latency\tcommit to published %s median, %s p99; order to completed %s median, %s p99",
		seconds(r.Latency.CommitToPublished.P50), seconds(r.Latency.CommitToPublished.P99),
		seconds(r.Latency.OrderToCompleted.P50), seconds(r.Latency.OrderToCompleted.P99))
	p("run\t%s, %.0f orders per second, seed %d", seconds(r.Duration), r.OrdersPerSecond, r.Seed)
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	p("invariant\tchecked\tviolations\twhat must hold")
	for _, inv := range r.Invariants {
		p("%s\t%d\t%d\t%s", inv.ID, inv.Checked, inv.Violations, inv.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printVerdict(w)
}

// why says in words what ended the cancelled orders.
func (o OrderCounts) why() string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(o.CancelledFor)) {
		words = append(words, fmt.Sprintf("%s %d", kind, o.CancelledFor[kind]))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func (r *Report) printVerdict(w io.Writer) error {
	bad := r.Failures()
	if !r.Settled() {
		bad = slices.Insert(bad, 0, "not everything settled in time")
	}
	verdict := "\nProof holds: nothing lost, nothing doubled, nothing out of order.\n"
	if len(bad) > 0 {
		verdict = "\nPROOF FAILS:\n  " + strings.Join(bad, "\n  ") + "\n"
	}
	_, err := io.WriteString(w, verdict)
	return err
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
