package advise

import "slices"

// Advice is the answer to a Case.
type Advice struct {
	Scheme   string `json:"scheme"`
	Broker   string `json:"broker"`
	Database string `json:"database"`
	// Reasons say why, the scheme's first.
	Reasons  []Reason  `json:"reasons"`
	Settings []Setting `json:"settings"`
	// CanLose says what is lost, or comes late, all the same, and when.
	CanLose []string `json:"can_lose"`
	// Instead are the schemes that were not taken.
	Instead []Reason `json:"instead"`
	// Read are the documents to read first.
	Read []string `json:"read"`
}

// Reason is why something was chosen, or was not.
type Reason struct {
	Of  string `json:"of"`
	Why string `json:"why"`
}

// Setting is what to set, where, and why.
type Setting struct {
	Where string `json:"where"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// For answers a case; an error is that of Check.
func For(c Case) (Advice, error) {
	if err := c.Check(); err != nil {
		return Advice{}, err
	}
	c = c.withDefaults()
	var a Advice
	scheme := schemeOf(c)
	a.Scheme = scheme.is
	a.Reasons = append(a.Reasons, Reason{scheme.is, scheme.why})
	broker, database := brokerOf(c, a.Scheme), databaseOf(c)
	a.Broker, a.Database = broker.is, database.is
	a.Reasons = append(a.Reasons, Reason{broker.is, broker.why}, Reason{database.is, database.why})
	for _, s := range settings {
		if s.when(c, a) {
			a.Settings = append(a.Settings, s.Setting)
		}
	}
	for _, l := range losses {
		if l.when(c, a) {
			a.CanLose = append(a.CanLose, l.says)
		}
	}
	for _, s := range schemes() {
		if s != a.Scheme {
			a.Instead = append(a.Instead, Reason{s, insteadOf(c, s)})
		}
	}
	a.Read = []string{"docs/schemes.md"}
	for _, d := range documents {
		if d.of == a.Broker || d.of == a.Database || d.of == a.Scheme {
			a.Read = append(a.Read, d.path)
		}
	}
	return a, nil
}

// choice is a row of a table: the first whose condition holds decides.
type choice struct {
	is, why string
	when    func(Case) bool
}

func first(rows []choice, c Case) choice {
	i := slices.IndexFunc(rows, func(r choice) bool { return r.when(c) })
	return rows[i] // the last of each table always holds
}

func always(Case) bool { return true }

var documents = []struct{ of, path string }{
	{Kafka, "docs/brokers/kafka.md"}, {RabbitMQ, "docs/brokers/rabbitmq.md"}, {RocketMQ, "docs/brokers/rocketmq.md"}, {NATS, "docs/brokers/nats.md"},
	{MySQL, "docs/mysql.md"}, {Outbox, "docs/serve.md"}, {TxMsg, "docs/txmsg.md"},
}
