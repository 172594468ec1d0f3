// Package rawbench measures Settle beside what the same machine does without
// it, in one run: raw SQLite commits of the same rows, raw JetStream publishes
// of the same bytes with the same durability.
package rawbench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// Figure is one measured line. Ratio compares it with the raw figure it
// belongs to; the raw figures themselves have none.
type Figure struct {
	Name    string  `json:"name"`
	Events  int     `json:"events"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"events_per_second"`
	// RatioTo names the raw figure; Ratio is Rate divided by its rate.
	RatioTo string  `json:"ratio_to,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	// Goal is the ratio, or for end to end the rate, that is aimed at.
	Goal float64 `json:"goal,omitempty"`
	// HeapMB is the highest live heap of the run, the broker's included.
	HeapMB float64 `json:"heap_mb,omitempty"`
}

// Report is one run.
type Report struct {
	Date         time.Time `json:"date"`
	CPUs         int       `json:"cpus"`
	Go           string    `json:"go"`
	PayloadBytes int       `json:"payload_bytes"`
	Figures      []Figure  `json:"figures"`
}

func newReport() Report {
	return Report{Date: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Go: runtime.Version(), PayloadBytes: payloadBytes}
}

func (r *Report) add(name string, events int, took time.Duration) *Figure {
	r.Figures = append(r.Figures, Figure{Name: name, Events: events, Seconds: took.Seconds(), Rate: float64(events) / took.Seconds()})
	return &r.Figures[len(r.Figures)-1]
}

// against fills in the ratio of the last figure to the raw one.
func (r *Report) against(raw string, goal float64) {
	last := &r.Figures[len(r.Figures)-1]
	for _, f := range r.Figures {
		if f.Name == raw {
			last.RatioTo, last.Ratio, last.Goal = raw, last.Rate/f.Rate, goal
		}
	}
}

// Print draws the report as a table with a bar for each rate.
func (r Report) Print(w io.Writer) error {
	top := 0.0
	for _, f := range r.Figures {
		top = max(top, f.Rate)
	}
	if _, err := fmt.Fprintf(w, "%d CPUs, %s, %d-byte payloads, everything durable (synchronous=FULL, sync always)\n\n%-34s %10s  %-30s %s\n",
		r.CPUs, r.Go, r.PayloadBytes, "", "events/s", "", "ratio to raw"); err != nil {
		return err
	}
	for _, f := range r.Figures {
		note := ""
		switch {
		case f.RatioTo != "":
			note = fmt.Sprintf("%.2f of %s", f.Ratio, f.RatioTo)
			if f.Goal > 0 {
				note += fmt.Sprintf(" (goal %.2f)", f.Goal)
			}
		case f.Goal > 0:
			note = fmt.Sprintf("goal %.0f/s", f.Goal)
		}
		if f.HeapMB > 0 {
			note += fmt.Sprintf("  heap %.0f MB", f.HeapMB)
		}
		bar := strings.Repeat("█", int(f.Rate/top*30+0.5))
		if _, err := fmt.Fprintf(w, "%-34s %10.0f  %-30s %s\n", f.Name, f.Rate, bar, note); err != nil {
			return err
		}
	}
	return nil
}
