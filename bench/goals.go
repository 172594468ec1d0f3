package main

import "fmt"

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

// aims are what a database's part is judged by.
type aims struct {
	// lean is how many times as fast as others the lean relay is to be, by their
	// names.
	lean []aim
	// logBytes is how much it may write into the server's logs for an event; 0:
	// nothing is asked for.
	logBytes float64
	// producer is what is to be left of producers that have an outbox, beside is
	// what is to be left of them while the relay reads; 0: only reported.
	producer, beside float64
}

type aim struct {
	than string
	want float64
}

func aimsOnPostgres() aims {
	return aims{lean: []aim{{rawName, 0.7}, {"tutorial", 40}, {"classic", 2.5}, {"watermill1000", 7}, {"replication", 1.1}}, logBytes: 5, producer: 0.9}
}

func aimsOnMySQL() aims {
	return aims{lean: []aim{{rawName, 0.6}, {"tutorial", 10}, {"watermill", 10}}, beside: 0.9}
}

// judge compares the part with the aims. Goals whose figures were not measured
// are left out.
func (p *part) judge(a aims) {
	if lean, found := p.relay(leanName); found {
		for _, g := range a.lean {
			if other, found := p.relay(g.than); found {
				p.atLeast("lean drain ÷ "+other.Title, other.LeanRatio, g.want, "×")
			}
		}
		if a.logBytes > 0 {
			p.Goals = append(p.Goals, goal{"WAL of the lean relay", fmt.Sprintf("≤ %g bytes per event", a.logBytes), fmt.Sprintf("%.1f", lean.Log), verdict(lean.Log <= a.logBytes)})
		}
	}
	if row, found := p.relay(adoptedName); found {
		p.adopted(row)
	}
	if row, found := p.relay("settle"); found {
		p.scenes(row)
	}
	p.beside(a.beside)
	p.ends(a.producer)
}

// atLeast adds a goal; nothing that is wanted is only reported.
func (p *part) atLeast(name string, got, want float64, unit string) {
	p.Goals = append(p.Goals, atLeast(name, got, want, unit))
}

func atLeast(name string, got, want float64, unit string) goal {
	g := goal{name, fmt.Sprintf("≥ %g %s", want, unit), fmt.Sprintf("%.2f", got), verdict(got >= want)}
	if want == 0 {
		g.Want, g.Verdict = unit, reported
	}
	return g
}

// adopted compares the relay that writes statuses with those that live by them.
func (p *part) adopted(row relayRow) {
	for _, g := range []aim{{"tutorial", 10}, {"classic", 1}} {
		if other, found := p.relay(g.than); found && other.Rate > 0 {
			p.atLeast("drain with statuses written ÷ "+other.Title, row.Rate/other.Rate, g.want, "×")
		}
	}
}

func (p *part) scenes(row relayRow) {
	if f := row.Poisoned; f.compared() {
		p.Goals = append(p.Goals, goal{"other keys beside a poisoned one", "≥ 0.95 of the drain", f.ratio(), verdict(!f.Stopped && f.Ratio >= 0.95)})
	}
	if f := row.Idle; f.compared() {
		p.Goals = append(p.Goals, goal{"an idle write transaction held open", "no change, nothing lost", f.ratio(), verdict(!f.Stopped && f.Ratio >= 0.95 && f.Lost == 0)})
	}
	if f := row.Snapshot; f.Measured && f.OldEvents >= 0 {
		p.Goals = append(p.Goals, goal{"old versions in the events' table with a snapshot held", "0", fmt.Sprintf("%g per event", f.OldEvents), verdict(f.OldEvents == 0)})
	}
	if rawRow, found := p.relay(rawName); found && row.P50 > 0 {
		p.Goals = append(p.Goals,
			goal{"p50 beside the raw poll loop", "+ 1 ms", fmt.Sprintf("%+.1f ms", row.P50-rawRow.P50), reported},
			goal{"p99 beside the raw poll loop", "+ 4 ms", fmt.Sprintf("%+.1f ms", row.P99-rawRow.P99), reported})
	}
}

func (p *part) beside(want float64) {
	for _, row := range p.Relays {
		if (row.Name == "settle" || row.Name == leanName) && row.Beside.Measured {
			p.atLeast("producers while "+row.Title+", reads", row.Beside.Ratio, want, "of without")
		}
	}
}

func (p *part) ends(want float64) {
	if other, found := p.consumer(singleName); found {
		for _, name := range []string{"settle", "settle-batch"} {
			if row, found := p.consumer(name); found && row.RatioToSingle > 0 {
				p.atLeast(row.Title+" ÷ "+other.Title+", a commit costing 1 ms more", row.RatioToSingle, 5, "×")
			}
		}
	}
	for _, row := range p.Producers {
		if row.Title != byHandTitle && row.Name != row.Than {
			p.atLeast("producer, "+row.Name, row.Ratio, want, "of without")
			p.atLeast("producer, "+row.Name+", a commit costing 1 ms more", row.SlowRatio, want, "of without")
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
