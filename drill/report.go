package drill

import (
	"fmt"
	"strings"
	"time"
)

// Report is the proof of one drill. Its JSON is what scripts read.
type Report struct {
	Orders     OrderCounts    `json:"orders"`
	Events     EventCounts    `json:"events"`
	Deliveries DeliveryCounts `json:"deliveries"`
	// DeadLettersOpen wait for a person; DeadLettersLeft is how many of them
	// were to be left open on purpose. Letters are those that are open.
	DeadLettersOpen int64        `json:"dead_letters_open"`
	DeadLettersLeft int64        `json:"dead_letters_left"`
	Letters         []Letter     `json:"letters"`
	Money           Money        `json:"money"`
	Faults          []FaultCount `json:"faults"`
	Invariants      []Invariant  `json:"invariants"`
	Latency         Latencies    `json:"latency_seconds"`
	Duration        float64      `json:"duration_seconds"`
	OrdersPerSecond float64      `json:"orders_per_second"`
	// Began is when the run began, Marks what was done to it and when.
	Began time.Time `json:"began"`
	Marks []Mark    `json:"marks"`
	Seed  uint64    `json:"seed"`
	Dir   string    `json:"dir"`
}

// OrderCounts come from the orders' table.
type OrderCounts struct {
	Accepted  int64 `json:"accepted"`
	Completed int64 `json:"completed"`
	Cancelled int64 `json:"cancelled"`
	// CancelledFor counts the cancelled ones by what ended them: stock, risk,
	// payment, time, shipping or customer.
	CancelledFor map[string]int64 `json:"cancelled_for"`
	// Unsettled are neither, and no open dead letter explains it.
	Unsettled int64 `json:"unsettled"`
	// Refused requests made no order, as they should not.
	Refused int64 `json:"refused"`
}

// Money by the payment provider's books, beside what the completed orders
// cost.
type Money struct {
	Captured  Cents `json:"captured"`
	Refunded  Cents `json:"refunded"`
	Net       Cents `json:"net"`
	Completed Cents `json:"completed"`
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

// MinChecked is how many invariants must have had something to examine.
const MinChecked = 36

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
			bad = append(bad, fmt.Sprintf("%s is violated %s (%s): %s", inv.ID, times(int(inv.Violations), "time"), inv.Name, strings.Join(inv.Examples, "; ")))
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
	if r.DeadLettersOpen != r.DeadLettersLeft {
		bad = append(bad, fmt.Sprintf("%s open; %d were to be left", times(int(r.DeadLettersOpen), "dead letter"), r.DeadLettersLeft))
	}
	return bad
}

// Settled reports whether every order ended or is explained by a dead letter,
// and every event was published.
func (r *Report) Settled() bool {
	return r.Orders.Unsettled == 0 && r.Events.Appended == r.Events.Published
}
