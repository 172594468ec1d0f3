package main

import (
	"fmt"
	"slices"
)

// brokerPart is what was measured on one broker.
type brokerPart struct {
	Run  run    `json:"run"`
	Name string `json:"broker"`
	// Server says what it is and how durable; Database is where events were
	// drained from.
	Server   string     `json:"server"`
	Database database   `json:"database"`
	Publish  []wayRow   `json:"publish"`
	Hot      []wayRow   `json:"publish_one_key"`
	Read     []wayRow   `json:"read"`
	Drain    []drainRow `json:"drain"`
	Goals    []goal     `json:"goals"`
}

// wayRow is what was measured of one way.
type wayRow struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Rates are those of the rounds, in their order; Rate is their median, and
	// Ratio that to the median of the first way.
	Rates []float64 `json:"rounds_events_per_second"`
	Rate  float64   `json:"events_per_second"`
	Ratio float64   `json:"ratio_to_raw"`
	// CPU is seconds of the client's process per million events.
	CPU      float64 `json:"cpu_seconds_per_million"`
	Twice    int     `json:"came_twice"`
	Disorder int     `json:"out_of_order"`
	cpus     []float64
}

func (r *wayRow) add(p passage) {
	r.Rates, r.cpus = append(r.Rates, p.Rate), append(r.cpus, p.CPU)
	r.Twice, r.Disorder = r.Twice+p.Twice, r.Disorder+p.Disorder
}

// drainRow is what was measured of one carrier; Rates from a backlog stored one
// event a transaction, Batched from one stored 100 a transaction.
type drainRow struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Rates   []float64 `json:"rounds_events_per_second"`
	Batched []float64 `json:"batched_rounds_events_per_second"`
	Rate    float64   `json:"events_per_second"`
	Many    float64   `json:"batched_events_per_second"`
	Ratio   float64   `json:"ratio_to_raw"`
	CPU     float64   `json:"cpu_seconds_per_million"`
	// P50 and P99 are from commit to acknowledgement, in ms; Lost was published
	// never.
	P50              float64 `json:"p50_ms"`
	P99              float64 `json:"p99_ms"`
	Lost             int     `json:"lost"`
	cpus, p50s, p99s []float64
}

// summarise fills in medians.
func (p *brokerPart) summarise() {
	for _, rows := range [][]wayRow{p.Publish, p.Hot, p.Read} {
		for i := range rows {
			rows[i].Rate, rows[i].CPU = median(rows[i].Rates), median(rows[i].cpus)
			rows[i].Ratio = quotient(rows[i].Rate, rows[0].Rate)
		}
	}
	for i := range p.Drain {
		row := &p.Drain[i]
		row.Rate, row.Many, row.CPU, row.P50, row.P99 = median(row.Rates), median(row.Batched), median(row.cpus), median(row.p50s), median(row.p99s)
		row.Ratio = quotient(row.Rate, p.Drain[0].Rate)
	}
}

func quotient(of, to float64) float64 {
	if to == 0 {
		return 0
	}
	return of / to
}

// judge compares the part with what was aimed at. What was not measured is left
// out.
func (p *brokerPart) judge() {
	p.way(p.Publish, "settle", "publish", 0.9)
	p.way(p.Hot, "settle", "publish events of one key", 0)
	p.way(p.Read, "settle", "consume", 0.8)
	p.way(p.Read, "consumer", "consume", 0)
	lean, found := p.drained("lean")
	for _, g := range []aim{{"replication", 1}, {"watermill", 10}} {
		if other, is := p.drained(g.than); found && is && other.Rate > 0 {
			p.atLeast("lean drain ÷ "+other.Title, lean.Rate/other.Rate, g.want, "×")
			p.atLeast("the same, stored 100 a transaction", quotient(lean.Many, other.Many), g.want, "×")
		}
	}
	raw, is := p.drained(rawName)
	if settle, found := p.drained("settle"); found && is && raw.P50 > 0 {
		more := settle.P50 - raw.P50
		p.Goals = append(p.Goals, goal{fmt.Sprintf("p50 from commit to acknowledgement at %s/s, beside %s", count(steadyAtBroker), raw.Title), "≤ + 1.5 ms", fmt.Sprintf("%+.1f ms", more), verdict(more <= 1.5)})
	}
}

func (p *brokerPart) way(rows []wayRow, name, what string, want float64) {
	i := slices.IndexFunc(rows, func(r wayRow) bool { return r.Name == name })
	if i >= 0 && rows[i].Ratio > 0 {
		p.atLeast(what+": "+rows[i].Title, rows[i].Ratio, want, "of raw")
	}
}

func (p *brokerPart) atLeast(name string, got, want float64, unit string) {
	if got > 0 {
		p.Goals = append(p.Goals, atLeast(name, got, want, unit))
	}
}

// drained finds a carrier by its name without the broker's.
func (p *brokerPart) drained(name string) (drainRow, bool) {
	i := slices.IndexFunc(p.Drain, func(r drainRow) bool { return r.Name == p.Name+"-"+name })
	if i < 0 {
		return drainRow{}, false
	}
	return p.Drain[i], true
}
