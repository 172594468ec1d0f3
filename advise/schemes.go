package advise

// schemes are all there are.
func schemes() []string { return []string{Outbox, TxMsg, Direct} }

func schemeOf(c Case) choice { return first(schemeRows, c) }

var schemeRows = []choice{
	{Direct, "an event may be lost now and then and has no order to keep: it is sent at once after the commit, and only what fails is stored, and sent by a relay; no row for each event",
		func(c Case) bool { return c.Value == ValueLow && c.Order == OrderNone }},
	{TxMsg, "RocketMQ is at hand and asks back by itself, events have no order to keep, and the business may be refused while the broker is away: half messages need no relay",
		func(c Case) bool { return c.has(RocketMQ) && c.Order == OrderNone && c.Away == AwayRefuse }},
	{Outbox, "no event may be lost, and the business goes on while the broker is away: the event is stored in the transaction of its fact, and a relay sends it",
		func(c Case) bool { return c.Value == ValueHigh && c.Away == AwayGoOn }},
	{Outbox, "events of a key are to come in order, and only a relay that reads the table as a log keeps it through retries and restarts",
		func(c Case) bool { return c.Order == OrderKey }},
	{Outbox, "no event may be lost, and none of the brokers at hand has half messages: the event is stored in the transaction of its fact, and a relay sends it", always},
}

// insteadRows say what speaks against a scheme; the first that holds is told.
var insteadRows = map[string][]choice{
	Outbox: {
		{"", "it loses nothing and keeps order, and costs a row for each event and a relay: take it when the events become worth that", func(c Case) bool { return c.Value == ValueLow }},
		{"", "it needs a relay and works with every broker: take it when orders must go on while the broker is away, or when order by key is asked for", always},
	},
	TxMsg: {
		{"", "half messages are RocketMQ's alone", func(c Case) bool { return len(c.Brokers) > 0 && !c.has(RocketMQ) }},
		{"", "half messages have no order, not even by key", func(c Case) bool { return c.Order == OrderKey }},
		{"", "each transaction would wait for the broker twice, and be refused while it is away", func(c Case) bool { return c.Away == AwayGoOn }},
		{"", "half messages are RocketMQ's alone, and it would have to be run for them", func(c Case) bool { return !c.has(RocketMQ) }},
		{"", "events that may be lost are not worth two calls of the broker and a record each", always},
	},
	Direct: {
		{"", "a process that dies between the commit and the send loses the event for good", func(c Case) bool { return c.Value == ValueHigh }},
		{"", "an event that died with its process leaves a gap in its key's order, and nobody is told", always},
	},
}

func insteadOf(c Case, scheme string) string { return first(insteadRows[scheme], c).why }
