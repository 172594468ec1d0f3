package main

import (
	"fmt"
	"slices"
)

// tables are the report as people read it; those of scenes that were not
// measured are left out. Each has a block of rows for each database.
func (r *report) tables() []table {
	var all []table
	relays := func(of func(relayRow) bool) func(part) bool {
		return func(p part) bool { return slices.ContainsFunc(p.Relays, of) }
	}
	for _, t := range []struct {
		measured func(part) bool
		show     func() table
	}{
		{relays(func(row relayRow) bool { return row.Rate > 0 }), r.drainTable},
		{relays(func(row relayRow) bool { return row.Rate > 0 }), r.costTable},
		{relays(func(row relayRow) bool { return row.P50 > 0 || row.Killed }), r.steadyTable},
		{relays(func(row relayRow) bool {
			return row.Idle.Measured || row.Snapshot.Measured || row.Poisoned.Measured || row.Large.Measured
		}), r.sceneTable},
		{relays(func(row relayRow) bool { return row.Beside.Measured }), r.besideTable},
		{func(p part) bool { return len(p.Consumers) > 0 }, r.consumerTable},
		{func(p part) bool { return len(p.Producers) > 0 }, r.producerTable},
		{func(p part) bool { return len(p.Goals) > 0 }, r.goalTable},
	} {
		if slices.ContainsFunc(r.Parts, t.measured) {
			all = append(all, t.show())
		}
	}
	return append(all, r.brokerTables()...)
}

// blocks fills a table with the rows of each database.
func (r *report) blocks(t table, rows func(t *table, p part)) table {
	for _, p := range r.Parts {
		if len(r.Parts) > 1 {
			t.block(p.Database.title())
		}
		rows(&t, p)
	}
	return t
}

func (d database) title() string { return d.Name + " " + d.Version }

// top is the highest of some figure on all databases: bars are drawn against it.
func (r *report) top(of func(relayRow) float64) (top float64) {
	for _, p := range r.Parts {
		for _, row := range p.Relays {
			top = max(top, of(row))
		}
	}
	return top
}

func drained(row relayRow) float64 { return row.Rate }

func (r *report) drainTable() table {
	t := table{title: "Relay: a backlog is drained", head: []string{"", "events/s", "of raw", "", "events/s, stored 100 a transaction"},
		note: "Stored one event a transaction. Medians of interleaved rounds, after a warm-up; bars on one scale."}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Relays {
			t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.RatioToRaw), bars(row.Rate, r.top(drained), 30), count(row.Batched))
		}
	})
}

func (r *report) costTable() table {
	t := table{title: "Relay: what an event costs", head: []string{"", "CPU s/million, relay", "CPU s/million, server", "log bytes", "old versions, events' table", "all tables"},
		note: "Log is what the server wrote beyond the insert: WAL, or redo and binary log. Old versions are updates and deletes, per event: dead tuples, or undo log that has to be purged. The server's CPU is that of the relay's sessions, in steps of 10 ms."}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Relays {
			t.add(row.Title, fmt.Sprintf("%.1f", row.RelayCPU), orNone("%.1f", row.ServerCPU), fmt.Sprintf("%.1f", row.Log), told(row.OldEvents), told(row.Old))
		}
	})
}

// told is a figure that a server may not tell.
func told(v float64) string {
	if v < 0 {
		return none
	}
	return fmt.Sprintf("%.3g", v)
}

func (r *report) steadyTable() table {
	t := table{title: fmt.Sprintf("Relay: commit to publish in ms at %s/s, open loop; and a SIGKILL", count(float64(r.Parts[0].Run.Rate))),
		head: []string{"", "p50", "p99", "p99.9", "lost", "sent twice after SIGKILL"},
		note: "Lost: published never, by a relay that was not killed. SIGKILL comes at half way of a backlog, at full speed: what is sent twice is the batch in hand."}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Relays {
			cells := []string{row.Title, none, none, none, none, none}
			if row.P999 > 0 {
				cells = []string{row.Title, fmt.Sprintf("%.1f", row.P50), fmt.Sprintf("%.1f", row.P99), fmt.Sprintf("%.1f", row.P999), fmt.Sprint(row.SteadyLost), none}
			}
			if row.Killed {
				cells[5] = fmt.Sprint(row.Twice)
			}
			t.add(cells...)
		}
	})
}

func (r *report) sceneTable() table {
	t := table{title: "Relay: when something is wrong", head: []string{"", "a poisoned key in 10,000", "idle write transaction", "snapshot held", "old versions then", "256 KB rows, events/s", "memory MB"},
		note: "Rates relative to the relay's own right before, without it, stored 100 a transaction. The idle transaction wrote an event before the backlog was stored, stays open while it is drained, and commits after; lost is an event that is never published although it was committed. One row of ten has 256 KB."}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Relays {
			t.add(row.Title, row.Poisoned.ratio(), row.Idle.ratio(), row.Snapshot.ratio(), told(row.Snapshot.OldEvents), count(row.Large.Rate), orNone("%.0f", row.Large.MemoryMB))
		}
	})
}

func (r *report) besideTable() table {
	t := table{title: "Producers while a relay reads what they store", head: []string{"", "transactions/s", "of without", "", "p50 ms", "p99 ms", "p99 without", "done again", "published meanwhile", "lost"},
		note: fmt.Sprintf("An order of two rows and its event, by hand, into the relay's own kind of table; %d connections, as fast as they can, in turns of a second with the relay and without it. A relay needs some of the two cores, too. Done again: after a deadlock, or a wait for a lock that was too long. Published meanwhile: of what was stored in a turn, before it ended.", producing)}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Relays {
			b := row.Beside
			if !b.Measured {
				continue
			}
			t.add(row.Title, count(b.Rate), fmt.Sprintf("%.2f", b.Ratio), bars(b.Ratio, 1, 20), fmt.Sprintf("%.1f", b.P50), fmt.Sprintf("%.1f", b.P99), fmt.Sprintf("%.1f", b.P99Without), fmt.Sprint(b.Vain), fmt.Sprintf("%.0f %%", b.Carried*100), fmt.Sprint(b.Lost))
		}
	})
}

func (r *report) consumerTable() table {
	t := table{title: "Consumer: each event applied once", head: []string{"", "events/s", "of raw", "", "events/s, a commit costing 1 ms more", "wrong effects", "applied twice after a restart"},
		note: fmt.Sprintf("One of 20 messages is delivered twice. The delay is injected (commit_delay with commit_siblings 0; binlog_commit_wait_usec). After a restart %d messages are delivered again.", redelivered)}
	top := 0.0
	for _, p := range r.Parts {
		for _, row := range p.Consumers {
			top = max(top, row.Rate)
		}
	}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Consumers {
			t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.RatioToRaw), bars(row.Rate, top, 30), count(row.Slow), fmt.Sprint(row.Wrong), fmt.Sprint(row.Twice))
		}
	})
}

func (r *report) producerTable() table {
	t := table{title: "Producer: an order of two rows", head: []string{"", "transactions/s", "of without", "transactions/s, a commit costing 1 ms more", "of without"},
		note: fmt.Sprintf("A transaction of two statements, and of three with the event; by hand is the least that the third can cost. %d connections; medians of interleaved rounds. The delay is injected as above.", producing)}
	return r.blocks(t, func(t *table, p part) {
		for _, row := range p.Producers {
			t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.Ratio), count(row.Slow), fmt.Sprintf("%.2f", row.SlowRatio))
		}
	})
}

func (r *report) goalTable() table {
	t := table{title: "Goals", head: []string{"", "aimed at", "measured", ""}, note: "Goals were set before anything was measured."}
	return r.blocks(t, func(t *table, p part) {
		for _, g := range p.Goals {
			t.add(g.Name, g.Want, g.Got, g.Verdict)
		}
	})
}

// runs tells of each part what it was measured on, and how.
func (r *report) runs() (all []string) {
	add := func(server string, of run) {
		all = append(all, server+"\n  "+of.told()+"\n  "+of.Command)
	}
	for _, p := range r.Parts {
		d := p.Database
		add(d.told(), p.Run)
	}
	for _, p := range r.Brokers {
		add(p.Server+"; from "+p.Database.told(), p.Run)
	}
	return all
}

// told is a database with what it costs to be durable.
func (d database) told() string {
	s := fmt.Sprintf("%s, %s, a commit costs %.2f ms", d.title(), d.Durable, d.CommitMS)
	if d.OtherSessions > 0 {
		s += fmt.Sprintf(" (%d OTHER SESSIONS were connected: its logs hold theirs, too)", d.OtherSessions)
	}
	return s
}
