package drill

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the proof of one drill. Its JSON is what scripts read.
type Report struct {
	Orders          OrderCounts    `json:"orders"`
	Events          EventCounts    `json:"events"`
	Deliveries      DeliveryCounts `json:"deliveries"`
	DeadLettersOpen int64          `json:"dead_letters_open"`
	Faults          []FaultCount   `json:"faults"`
	Invariants      []Invariant    `json:"invariants"`
	Latency         Latencies      `json:"latency_seconds"`
	Duration        float64        `json:"duration_seconds"`
	OrdersPerSecond float64        `json:"orders_per_second"`
	Seed            uint64         `json:"seed"`
	Dir             string         `json:"dir"`
}

// OrderCounts come from the orders' table.
type OrderCounts struct {
	Accepted  int64 `json:"accepted"`
	Completed int64 `json:"completed"` // their stock is reserved
	Cancelled int64 `json:"cancelled"` // there was not enough
	Unsettled int64 `json:"unsettled"` // neither
}

// EventCounts: appended and published from the outbox tables; published again
// is how many records of the broker's log are further copies of an event,
// without the copies that the drill planted.
type EventCounts struct {
	Appended       int64 `json:"appended"`
	Published      int64 `json:"published"`
	PublishedAgain int64 `json:"published_again"`
}

// DeliveryCounts: applied, rejected and dead from the consume logs and dead
// letters, retried from the attempts noted there (those before a replay stand
// in the dead letter); received, duplicate and
// ignored from what the consumers counted and wrote down every so often, so
// that what a killed process had counted since is missing from these three.
type DeliveryCounts struct {
	Received  int64 `json:"received"`
	Applied   int64 `json:"applied"`
	Duplicate int64 `json:"duplicate"`
	Ignored   int64 `json:"ignored"`
	Retried   int64 `json:"retried"`
	Rejected  int64 `json:"rejected"`
	Dead      int64 `json:"dead"`
}

// FaultCount is how many times a fault was seen to happen.
type FaultCount struct {
	Name  string `json:"name"`
	Times int    `json:"times"`
}

// Latencies are of all events and all orders, what was killed included.
type Latencies struct {
	CommitToPublished Quantiles `json:"commit_to_published"`
	OrderToCompleted  Quantiles `json:"order_to_completed"`
}

// Quantiles are in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

const countOrders = `SELECT COUNT(*), COALESCE(SUM(status='RESERVED'),0), COALESCE(SUM(status='CANCELLED'),0) FROM orders`

const countEvents = `SELECT (SELECT COUNT(*) FROM outbox), (SELECT COUNT(*) FROM outbox WHERE status='SENT'),
  (SELECT COUNT(*)-COUNT(DISTINCT event_id) FROM broker_log WHERE event_id<>'')-(SELECT COUNT(*) FROM planted WHERE kind='duplicate')`

const countDeliveries = `SELECT COALESCE(SUM(status IN ('APPLIED','SUCCESS')),0), COALESCE(SUM(status='REJECTED'),0),
  COALESCE(SUM(MAX(attempts-1,0)),0)+(SELECT COALESCE(SUM(MAX(attempts-1,0)),0) FROM dead_letter WHERE state<>'OPEN'), (SELECT COUNT(*) FROM dead_letter), (SELECT COUNT(*) FROM dead_letter WHERE state IN ('OPEN','REPLAYING')) FROM inbox`

const commitToPublished = `SELECT sent_at-created_at AS d FROM outbox WHERE sent_at IS NOT NULL`

const orderToCompleted = `SELECT updated_at-created_at AS d FROM orders WHERE status='RESERVED'`

// Count fills r with what the facts tell: orders, events, deliveries (but for
// those that only the consumers know), latencies and open dead letters.
func (f *Facts) Count(ctx context.Context, r *Report) error {
	o, e, d := &r.Orders, &r.Events, &r.Deliveries
	for _, q := range []struct {
		text string
		into []any
	}{
		{countOrders, []any{&o.Accepted, &o.Completed, &o.Cancelled}},
		{countEvents, []any{&e.Appended, &e.Published, &e.PublishedAgain}},
		{countDeliveries, []any{&d.Applied, &d.Rejected, &d.Retried, &d.Dead, &r.DeadLettersOpen}},
	} {
		if err := f.db.QueryRowContext(ctx, q.text).Scan(q.into...); err != nil {
			return fmt.Errorf("count facts: %w", err)
		}
	}
	o.Unsettled = o.Accepted - o.Completed - o.Cancelled
	var err error
	if r.Latency.CommitToPublished, err = f.quantiles(ctx, commitToPublished); err != nil {
		return err
	}
	r.Latency.OrderToCompleted, err = f.quantiles(ctx, orderToCompleted)
	return err
}

// quantiles ranks the microseconds d that text selects.
func (f *Facts) quantiles(ctx context.Context, text string) (Quantiles, error) {
	rows, err := f.db.QueryContext(ctx, text+" ORDER BY d")
	if err != nil {
		return Quantiles{}, fmt.Errorf("rank latencies: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var all []int64
	for rows.Next() {
		var d int64
		if err := rows.Scan(&d); err != nil {
			return Quantiles{}, fmt.Errorf("rank latencies: %w", err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return Quantiles{}, rows.Err()
	}
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e6 }
	return Quantiles{P50: at(0.50), P99: at(0.99)}, rows.Err()
}

// MinChecked is how many invariants must have had something to examine.
const MinChecked = 12

// Failures returns what is wrong, a sentence each; none means that the proof
// holds. Orders that did not settle are not among them; see Settled.
func (r *Report) Failures() []string {
	var bad []string
	checked := 0
	for _, inv := range r.Invariants {
		if inv.Checked > 0 {
			checked++
		}
		if inv.Violations > 0 {
			bad = append(bad, fmt.Sprintf("%s is violated %d times (%s): %s", inv.ID, inv.Violations, inv.Name, strings.Join(inv.Examples, "; ")))
		}
	}
	if checked < MinChecked {
		bad = append(bad, fmt.Sprintf("only %d invariants had something to examine; %d are needed for a proof", checked, MinChecked))
	}
	for _, f := range r.Faults {
		if f.Times == 0 {
			bad = append(bad, fmt.Sprintf("the fault %s never happened", f.Name))
		}
	}
	return bad
}

// Settled reports whether nothing is left open.
func (r *Report) Settled() bool {
	return r.Orders.Unsettled == 0 && r.DeadLettersOpen == 0 && r.Events.Appended == r.Events.Published
}

// Print writes the proof as plain text.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
	o, e, d := r.Orders, r.Events, r.Deliveries
	p("orders\t%d accepted, %d completed, %d cancelled for lack of stock, %d unsettled", o.Accepted, o.Completed, o.Cancelled, o.Unsettled)
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
