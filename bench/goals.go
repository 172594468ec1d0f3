package main

import (
	"fmt"
	"strings"
)

// goal is a figure that was aimed at before anything was measured.
type goal struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	// Verdict is met, missed, or reported where nothing was asked for.
	Verdict string `json:"verdict"`
}

const (
	met      = "met"
	missed   = "MISSED"
	reported = "reported"
)

func verdict(ok bool) string {
	if ok {
		return met
	}
	return missed
}

// judge compares the report with the goals. Goals whose figures were not
// measured are left out.
func (r *report) judge() {
	lean, found := r.relay(leanName)
	if found {
		for _, g := range []struct {
			than string
			want float64
		}{{rawName, 0.7}, {"tutorial", 40}, {"classic", 2.5}, {"watermill1000", 7}, {"replication", 1.1}} {
			if other, found := r.relay(g.than); found {
				r.atLeast("lean drain ÷ "+other.Title, other.LeanRatio, g.want, "×")
			}
		}
		r.Goals = append(r.Goals, goal{"WAL of the lean relay", "≤ 5 bytes per event", fmt.Sprintf("%.1f", lean.WAL), verdict(lean.WAL <= 5)})
	}
	if row, found := r.relay(adoptedName); found {
		r.adopted(row)
	}
	if row, found := r.relay("settle"); found {
		r.scenes(row)
	}
	r.ends()
}

func (r *report) atLeast(name string, got, want float64, unit string) {
	r.Goals = append(r.Goals, goal{name, fmt.Sprintf("≥ %g %s", want, unit), fmt.Sprintf("%.2f", got), verdict(got >= want)})
}

// adopted compares the relay that writes statuses with those that live by them.
func (r *report) adopted(row relayRow) {
	for _, g := range []struct {
		than string
		want float64
	}{{"tutorial", 10}, {"classic", 1}} {
		if other, found := r.relay(g.than); found && other.Rate > 0 {
			r.atLeast("drain with statuses written ÷ "+other.Title, row.Rate/other.Rate, g.want, "×")
		}
	}
}

func (r *report) scenes(row relayRow) {
	if f := row.Poisoned; f.compared() {
		r.Goals = append(r.Goals, goal{"other keys beside a poisoned one", "≥ 0.95 of the drain", f.ratio(), verdict(!f.Stopped && f.Ratio >= 0.95)})
	}
	if f := row.Idle; f.compared() {
		r.Goals = append(r.Goals, goal{"an idle write transaction held open", "no change, nothing lost", f.ratio(), verdict(!f.Stopped && f.Ratio >= 0.95 && f.Lost == 0)})
	}
	if f := row.Xmin; f.Measured {
		r.Goals = append(r.Goals, goal{"dead tuples in the events' table with xmin held", "0", fmt.Sprintf("%g per event", f.DeadEvents), verdict(f.DeadEvents == 0)})
	}
	if rawRow, found := r.relay(rawName); found && row.P50 > 0 {
		r.Goals = append(r.Goals,
			goal{"p50 beside the raw poll loop", "+ 1 ms", fmt.Sprintf("%+.1f ms", row.P50-rawRow.P50), reported},
			goal{"p99 beside the raw poll loop", "+ 4 ms", fmt.Sprintf("%+.1f ms", row.P99-rawRow.P99), reported})
	}
}

func (r *report) ends() {
	if other, found := r.consumer(singleName); found {
		for _, name := range []string{"settle", "settle-batch"} {
			if row, found := r.consumer(name); found && row.RatioToSingle > 0 {
				r.atLeast(row.Title+" ÷ "+other.Title+", a commit costing 1 ms more", row.RatioToSingle, 5, "×")
			}
		}
	}
	for _, p := range r.Producers {
		if !strings.Contains(p.Title, "by hand") && p.Name != p.Than {
			r.atLeast("producer, "+p.Name, p.Ratio, 0.9, "of without")
			r.atLeast("producer, "+p.Name+", a commit costing 1 ms more", p.SlowRatio, 0.9, "of without")
		}
	}
}

// compared tells whether the rate without what is wrong was measured, too.
func (f figure) compared() bool { return f.Stopped || f.Ratio > 0 }

// ratio is how a figure compares, in a word.
func (f figure) ratio() string {
	switch {
	case !f.Measured:
		return none
	case f.Stopped:
		return fmt.Sprintf("stopped at %.0f %%", f.Carried*100)
	case f.Lost > 0:
		return fmt.Sprintf("%s, lost %d", orNone("%.2f", f.Ratio), f.Lost)
	}
	return orNone("%.2f", f.Ratio)
}
