package advise

import "slices"

// brokerOf chooses among the brokers at hand, or proposes one.
func brokerOf(c Case, scheme string) choice {
	if scheme == TxMsg {
		return choice{is: RocketMQ, why: "the one broker with half messages"}
	}
	row := brokerRows[slices.IndexFunc(brokerRows, func(r preference) bool { return r.when(c) })]
	for _, name := range row.order {
		switch {
		case c.has(name) && len(c.Brokers) == 1:
			return choice{is: name, why: "it is at hand"}
		case c.has(name):
			return choice{is: name, why: "of those at hand: " + row.why}
		}
	}
	return choice{is: row.order[0], why: row.why}
}

// preference is an order of names; each holds all of them.
type preference struct {
	order []string
	why   string
	when  func(Case) bool
}

// Rates are those of docs/benchmarks.md, with room: a small cluster of each on
// small machines.
const (
	muchForRabbitMQ = 10_000
	muchForOneFile  = 5_000
	muchForOneRelay = 50_000
)

var brokerRows = []preference{
	{[]string{Kafka, RocketMQ, NATS, RabbitMQ, Embedded}, "so many events a second are what a log in partitions is made for, and it keeps them to be read again",
		func(c Case) bool { return c.Rate > muchForRabbitMQ }},
	{[]string{Embedded, NATS, RabbitMQ, Kafka, RocketMQ}, "nothing to run: JetStream in the same process, which a cluster of NATS can take the place of later",
		func(c Case) bool { return c.Team == TeamSmall }},
	{[]string{Kafka, NATS, RabbitMQ, RocketMQ, Embedded}, "keys in order, groups that read at their own pace, and events that can be read again",
		func(c Case) bool { return c.Order == OrderKey }},
	{[]string{RabbitMQ, NATS, Kafka, RocketMQ, Embedded}, "work that is dealt out to whoever is free",
		func(Case) bool { return true }},
}

// databaseOf chooses among the databases at hand, or proposes one.
func databaseOf(c Case) choice {
	row := databaseRows[slices.IndexFunc(databaseRows, func(r preference) bool { return r.when(c) })]
	for _, name := range row.order {
		if slices.Contains(c.Databases, name) {
			why := "it is at hand: the events have to be stored where the business is"
			if len(c.Databases) > 1 {
				why = "of those at hand, if the business is there: " + row.why
			}
			return choice{is: name, why: why}
		}
	}
	return choice{is: row.order[0], why: row.why}
}

var databaseRows = []preference{
	{[]string{PostgreSQL, MySQL, SQLite}, "tells which transactions may still own a missing id, so that late commits hold nothing up",
		func(c Case) bool { return c.Team == TeamPlatform || c.Rate > muchForOneFile }},
	{[]string{SQLite, PostgreSQL, MySQL}, "a file beside the program, and nothing to run",
		func(Case) bool { return true }},
}
