package main

import (
	"fmt"
	"slices"
	"strings"
)

// brokerTables are those of brokers; what was not measured is left out.
func (r *report) brokerTables() (all []table) {
	for _, t := range []struct {
		measured func(p brokerPart) bool
		show     func() table
	}{
		{func(p brokerPart) bool { return len(p.Publish) > 0 }, r.publishTable},
		{func(p brokerPart) bool { return len(p.Hot) > 0 }, r.hotTable},
		{func(p brokerPart) bool { return len(p.Read) > 0 }, r.readTable},
		{func(p brokerPart) bool { return len(p.Drain) > 0 }, r.toBrokerTable},
		{func(p brokerPart) bool { return len(p.Goals) > 0 }, r.brokerGoalTable},
	} {
		if slices.ContainsFunc(r.Brokers, t.measured) {
			all = append(all, t.show())
		}
	}
	return all
}

var wayHead = []string{"", "events/s", "of raw", "", "slowest – fastest round", "CPU s/million, client"}

func (r *report) publishTable() table {
	t := table{title: "Publish to a broker", head: wayHead,
		note: "Each way in a process of its own, into a topic of its own, all in turn in each round; medians, after a warm-up. All send the same envelope and headers, wait for the same acknowledgement, and have as many events unacknowledged at a time: 1,000 at Kafka, 512 at RabbitMQ, where Settle sends the next event of a key when the one before it is confirmed. Watermill's envelope is the same as a payload."}
	return r.ways(t, func(p brokerPart) []wayRow { return p.Publish })
}

func (r *report) hotTable() table {
	t := table{title: "Publish to RabbitMQ, all events of one key", head: wayHead,
		note: "The raw client has 512 of the key's events unconfirmed at a time: when RabbitMQ refuses one and takes those behind it, their order is lost. Settle has one, and so has Watermill, whose goroutine of the key waits."}
	return r.ways(t, func(p brokerPart) []wayRow { return p.Hot })
}

func (r *report) readTable() table {
	t := table{title: "Read from a broker", head: wayHead,
		note: "What lies in the broker is read, decoded, given to a handler in the order of each key, and acknowledged. The handler counts. Settle's consumer has an inbox that keeps nothing, so that the database is not measured."}
	return r.ways(t, func(p brokerPart) []wayRow { return p.Read })
}

// ways fills a table with a block for each broker.
func (r *report) ways(t table, of func(brokerPart) []wayRow) table {
	return r.brokerBlocks(t, func(t *table, p brokerPart) {
		rows, top := of(p), 0.0
		for _, row := range rows {
			top = max(top, row.Rate)
		}
		for _, row := range rows {
			t.add(row.Title, count(row.Rate), fmt.Sprintf("%.2f", row.Ratio), bars(row.Rate, top, 20), spread(row.Rates), fmt.Sprintf("%.1f", row.CPU))
		}
	}, func(p brokerPart) bool { return len(of(p)) > 0 })
}

func spread(rates []float64) string {
	if len(rates) == 0 {
		return none
	}
	return count(slices.Min(rates)) + " – " + count(slices.Max(rates))
}

func (r *report) toBrokerTable() table {
	t := table{title: "From a table to a broker", head: []string{"", "events/s", "of raw", "", "slowest – fastest round", "events/s, stored 100 a transaction", "CPU s/million, relay", "p50 ms", "p99 ms", "lost"},
		note: fmt.Sprintf("A backlog in PostgreSQL, stored one event a transaction, is published and acknowledged. The last columns are from an event's commit to its acknowledgement while %s a second are stored, each at its own time; lost is what was published never, by a relay that was not killed.", count(steadyAtBroker))}
	return r.brokerBlocks(t, func(t *table, p brokerPart) {
		top := 0.0
		for _, row := range p.Drain {
			top = max(top, row.Rate)
		}
		for _, row := range p.Drain {
			lost := none
			if row.P50 > 0 {
				lost = fmt.Sprint(row.Lost)
			}
			t.add(row.Title, count(row.Rate), orNone("%.2f", row.Ratio), bars(row.Rate, top, 20), spread(row.Rates), count(row.Many), orNone("%.1f", row.CPU), orNone("%.1f", row.P50), orNone("%.1f", row.P99), lost)
		}
	}, func(p brokerPart) bool { return len(p.Drain) > 0 })
}

func (r *report) brokerGoalTable() table {
	t := table{title: "Goals at brokers", head: []string{"", "aimed at", "measured", ""}, note: "Goals were set before anything was measured."}
	return r.brokerBlocks(t, func(t *table, p brokerPart) {
		for _, g := range p.Goals {
			t.add(g.Name, g.Want, g.Got, g.Verdict)
		}
	}, func(p brokerPart) bool { return len(p.Goals) > 0 })
}

// brokerBlocks fills a table with the rows of each broker that has some.
func (r *report) brokerBlocks(t table, rows func(*table, brokerPart), has func(brokerPart) bool) table {
	for _, p := range r.Brokers {
		if has(p) {
			t.block(p.title())
			rows(&t, p)
		}
	}
	return t
}

// title is what the server is, without its settings.
func (p brokerPart) title() string {
	name, _, _ := strings.Cut(p.Server, ",")
	return name
}
