package advise

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// cases are all that the tables can tell apart, with each subset of brokers and
// of databases, and numbers on both sides of every limit.
func cases() (all []Case) {
	for _, value := range []Value{ValueHigh, ValueLow} {
		for _, order := range []Order{OrderKey, OrderNone} {
			for _, away := range []Away{AwayGoOn, AwayRefuse} {
				for _, team := range []Team{TeamSmall, TeamPlatform} {
					for _, rate := range []float64{1, muchForOneFile, muchForOneFile + 1, muchForRabbitMQ, muchForRabbitMQ + 1, muchForOneRelay, muchForOneRelay + 1} {
						for _, delay := range []time.Duration{time.Millisecond, time.Minute} {
							for _, brokers := range subsets(Brokers()) {
								for _, databases := range subsets(Databases()) {
									all = append(all, Case{value, order, away, team, rate, delay, brokers, databases})
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

func subsets(names []string) (all [][]string) {
	for bits := range 1 << len(names) {
		var s []string
		for i, name := range names {
			if bits>>i&1 == 1 {
				s = append(s, name)
			}
		}
		all = append(all, s)
	}
	return all
}

func TestEveryCaseHasOneAnswerAndEveryRowOfEveryTableIsReached(t *testing.T) {
	said := map[string]bool{}
	for _, c := range cases() {
		a, err := For(c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		sound(t, c, a)
		for _, r := range slices.Concat(a.Reasons, a.Instead) {
			said[r.Of+": "+r.Why] = true
		}
		for _, s := range a.Settings {
			said[s.Where+": "+s.Value] = true
		}
		for _, l := range a.CanLose {
			said[l] = true
		}
		if t.Failed() {
			t.Fatalf("for %+v it says %+v", c, a)
		}
	}
	for _, row := range everyRow() {
		if !said[row] {
			t.Errorf("no case is told: %s", row)
		}
	}
}

// everyRow is what each row of the tables says.
func everyRow() (all []string) {
	for _, r := range schemeRows {
		all = append(all, r.is+": "+r.why)
	}
	for scheme, rows := range insteadRows {
		for _, r := range rows {
			all = append(all, scheme+": "+r.why)
		}
	}
	for _, p := range slices.Concat(brokerRows, databaseRows) {
		all = append(all, p.order[0]+": "+p.why)
		for _, name := range p.order[:len(p.order)-1] {
			if slices.Contains(Brokers(), name) {
				all = append(all, name+": of those at hand: "+p.why)
			}
		}
	}
	for _, s := range settings {
		all = append(all, s.Where+": "+s.Value)
	}
	for _, l := range losses {
		all = append(all, l.says)
	}
	return all
}

// sound is what holds for every answer.
func sound(t *testing.T, c Case, a Advice) {
	t.Helper()
	if c.Value == ValueHigh && a.Scheme == Direct {
		t.Error("what may not be lost is sent directly")
	}
	if c.Order == OrderKey && a.Scheme != Outbox {
		t.Error("an order is asked for that the scheme does not keep")
	}
	if c.Away == AwayGoOn && a.Scheme == TxMsg {
		t.Error("the business is refused while the broker is away")
	}
	if len(c.Brokers) > 0 && !slices.Contains(c.Brokers, a.Broker) {
		t.Error("a broker is proposed that is not at hand")
	}
	if len(c.Databases) > 0 && !slices.Contains(c.Databases, a.Database) {
		t.Error("a database is proposed that is not at hand")
	}
	if a.Scheme == TxMsg && a.Broker != RocketMQ {
		t.Error("half messages go to a broker without")
	}
	if len(a.Reasons) != 3 || len(a.Instead) != 2 || len(a.CanLose) == 0 || len(a.Settings) == 0 || len(a.Read) == 0 {
		t.Error("something is left out")
	}
	var where []string
	for _, s := range a.Settings {
		where = append(where, s.Where)
	}
	if slices.Sort(where); len(slices.Compact(slices.Clone(where))) != len(where) {
		t.Error("one thing is set twice")
	}
}

func TestAnswersToKnownCases(t *testing.T) {
	for name, c := range map[string]struct {
		Case
		scheme, broker, database string
	}{
		"nothing is known":                  {Case{}, Outbox, Embedded, SQLite},
		"orders, with Kafka and PostgreSQL": {Case{Team: TeamPlatform, Brokers: []string{Kafka}, Databases: []string{PostgreSQL}}, Outbox, Kafka, PostgreSQL},
		"payments that may be refused, with RocketMQ": {Case{Order: OrderNone, Away: AwayRefuse, Brokers: []string{Kafka, RocketMQ}, Databases: []string{MySQL}},
			TxMsg, RocketMQ, MySQL},
		"the same in order":        {Case{Away: AwayRefuse, Brokers: []string{RocketMQ}, Databases: []string{MySQL}}, Outbox, RocketMQ, MySQL},
		"page views":               {Case{Value: ValueLow, Order: OrderNone, Rate: 80_000, Team: TeamPlatform}, Direct, Kafka, PostgreSQL},
		"work for whoever is free": {Case{Order: OrderNone, Team: TeamPlatform}, Outbox, RabbitMQ, PostgreSQL},
	} {
		a, err := For(c.Case)
		if err != nil || a.Scheme != c.scheme || a.Broker != c.broker || a.Database != c.database {
			t.Errorf("%s: %s, %s, %s, %v; want %s, %s, %s", name, a.Scheme, a.Broker, a.Database, err, c.scheme, c.broker, c.database)
		}
	}
}

func TestAWordThatIsNoneIsNamedBesideThoseThatAre(t *testing.T) {
	for says, c := range map[string]Case{
		`value is "medium"; it is high or low`: {Value: "medium"},
		`order is "total"; it is key or none`:  {Order: "total"},
		`broker-away is "wait"`:                {Away: "wait"},
		`team is "big"`:                        {Team: "big"},
		`rate is -1`:                           {Rate: -1},
		`at most 10,000,000`:                   {Rate: 1e9},
		`delay is -1s`:                         {Delay: -time.Second},
		`broker is "redis"; there are kafka`:   {Brokers: []string{Kafka, "redis"}},
		`database is "oracle"; there are`:      {Databases: []string{"oracle"}},
	} {
		if _, err := For(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}
