package main

import (
	"fmt"
	"slices"
)

// tables are the report as people read it; those of scenes that were not
// measured are left out.
func (r *report) tables() []table {
	var all []table
	measured := func(of func(relayRow) bool) bool { return slices.ContainsFunc(r.Relays, of) }
	if measured(func(row relayRow) bool { return row.Rate > 0 }) {
		all = append(all, r.drainTable(), r.costTable())
	}
	if measured(func(row relayRow) bool { return row.P50 > 0 || row.Killed }) {
		all = append(all, r.steadyTable())
	}
	if measured(func(row relayRow) bool {
		return row.Idle.Measured || row.Xmin.Measured || row.Poisoned.Measured || row.Large.Measured
	}) {
		all = append(all, r.sceneTable())
	}
	if len(r.Consumers) > 0 {
		all = append(all, r.consumerTable())
	}
	if len(r.Producers) > 0 {
		all = append(all, r.producerTable())
	}
	return append(all, r.goalTable())
}

func (r *report) drainTable() table {
	t := table{title: "Relay: a backlog is drained", head: []string{"", "events/s", "of raw", "", "events/s, stored 100 a transaction"},
		note: "Stored one event a transaction. Medians of interleaved rounds, after a warm-up."}
	top := 0.0
	for _, row := range r.Relays {
		top = max(top, row.Rate)
	}
	for _, row := range r.Relays {
		t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.RatioToRaw), bars(row.Rate, top, 30), count(row.Batched))
	}
	return t
}

func (r *report) costTable() table {
	t := table{title: "Relay: what an event costs", head: []string{"", "CPU s/million, relay", "CPU s/million, server", "WAL bytes", "dead tuples, events' table", "all tables"},
		note: "WAL is what the server wrote beyond the insert. Dead tuples are updates and deletes, per event. The server's CPU is that of the relay's sessions, in steps of 10 ms."}
	for _, row := range r.Relays {
		t.add(row.Title, fmt.Sprintf("%.1f", row.RelayCPU), fmt.Sprintf("%.1f", row.ServerCPU), fmt.Sprintf("%.1f", row.WAL),
			fmt.Sprintf("%.3g", row.DeadEvents), fmt.Sprintf("%.3g", row.Dead))
	}
	return t
}

func (r *report) steadyTable() table {
	t := table{title: fmt.Sprintf("Relay: commit to publish in ms at %s/s, open loop; and a SIGKILL", count(float64(r.Rate))),
		head: []string{"", "p50", "p99", "p99.9", "lost", "sent twice after SIGKILL"},
		note: "Lost: published never, by a relay that was not killed. SIGKILL comes at half way of a backlog, at full speed: what is sent twice is the batch in hand."}
	for _, row := range r.Relays {
		cells := []string{row.Title, none, none, none, none, none}
		if row.P999 > 0 {
			cells = []string{row.Title, fmt.Sprintf("%.1f", row.P50), fmt.Sprintf("%.1f", row.P99), fmt.Sprintf("%.1f", row.P999), fmt.Sprint(row.SteadyLost), none}
		}
		if row.Killed {
			cells[5] = fmt.Sprint(row.Twice)
		}
		t.add(cells...)
	}
	return t
}

func (r *report) sceneTable() table {
	t := table{title: "Relay: when something is wrong", head: []string{"", "a poisoned key in 10,000", "idle write transaction", "xmin held", "dead tuples then", "256 KB rows, events/s", "memory MB"},
		note: "Rates relative to the relay's own without it, stored 100 a transaction. The idle transaction wrote an event before the backlog was stored, stays open while it is drained, and commits after; lost is an event that is never published although it was committed. One row of ten has 256 KB."}
	for _, row := range r.Relays {
		t.add(row.Title, row.Poisoned.ratio(), row.Idle.ratio(), row.Xmin.ratio(), fmt.Sprintf("%.3g", row.Xmin.DeadEvents), count(row.Large.Rate), orNone("%.0f", row.Large.MemoryMB))
	}
	return t
}

func (r *report) consumerTable() table {
	t := table{title: "Consumer: each event applied once", head: []string{"", "events/s", "of raw", "", "events/s, a commit costing 1 ms more", "wrong effects", "applied twice after a restart"},
		note: fmt.Sprintf("One of 20 messages is delivered twice. The delay is injected (commit_delay 1 ms with commit_siblings 0); without it a commit costs %.2f ms here. After a restart %d messages are delivered again.", r.Machine.CommitMS, redelivered)}
	top := 0.0
	for _, row := range r.Consumers {
		top = max(top, row.Rate)
	}
	for _, row := range r.Consumers {
		t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.RatioToRaw), bars(row.Rate, top, 30), count(row.Slow), fmt.Sprint(row.Wrong), fmt.Sprint(row.Twice))
	}
	return t
}

func (r *report) producerTable() table {
	t := table{title: "Producer: an order of two rows", head: []string{"", "transactions/s", "of without", "transactions/s, a commit costing 1 ms more", "of without"},
		note: fmt.Sprintf("A transaction of two statements, and of three with the event; by hand is the least that the third can cost. %d connections; medians of interleaved rounds. The delay is injected as above.", producing)}
	for _, row := range r.Producers {
		t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.Ratio), count(row.Slow), fmt.Sprintf("%.2f", row.SlowRatio))
	}
	return t
}

func (r *report) goalTable() table {
	t := table{title: "Goals", head: []string{"", "aimed at", "measured", ""}, note: "Goals were set before anything was measured."}
	for _, g := range r.Goals {
		t.add(g.Name, g.Want, g.Got, g.Verdict)
	}
	return t
}

// told is where and how it was measured.
func (r *report) told() string {
	m := r.Machine
	s := fmt.Sprintf("%s · %d CPUs, %s, %.0f GB, %s, %s · PostgreSQL %s, %s, a commit costs %.2f ms · %s events of 256 bytes, %s keys, %d rounds, %.0f s",
		r.Date.Format("2006-01-02 15:04 MST"), m.CPUs, m.CPU, m.MemoryGB, m.System, m.Go, m.Postgres, m.Durable, m.CommitMS, count(float64(r.Events)), count(keys), r.Rounds, r.Took)
	if r.Interrupted {
		s += " · INTERRUPTED: medians of the rounds that were done"
	}
	if m.OtherSessions > 0 {
		s += fmt.Sprintf(" · %d other sessions were connected to the server: its WAL holds theirs, too", m.OtherSessions)
	}
	return s
}
