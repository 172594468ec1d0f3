// Package advise says which way of sending events fits a use case: scheme,
// broker, database and settings, with the reasons, and what can be lost all the
// same. It decides by tables, asks nobody and measures nothing.
package advise

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Value is what an event is worth.
type Value string

// Values of an event.
const (
	// ValueHigh events are money, stock or a promise: none may be lost.
	ValueHigh Value = "high"
	// ValueLow events may be lost now and then: something else tells them again,
	// or nobody misses them.
	ValueLow Value = "low"
)

// Order is what the events of one key ask for.
type Order string

// Orders of events.
const (
	OrderKey  Order = "key"  // one after the other
	OrderNone Order = "none" // in any order
)

// Away is what becomes of the business while the broker is away.
type Away string

// What may become of it.
const (
	AwayGoOn   Away = "go-on"  // it is done, and its events follow
	AwayRefuse Away = "refuse" // it may be refused
)

// Team is who runs all this.
type Team string

// Teams.
const (
	TeamSmall    Team = "small"    // nobody whose work it is to run brokers
	TeamPlatform Team = "platform" // there are people for servers of several nodes
)

// Names of schemes, brokers and databases.
const (
	Outbox = "outbox"
	TxMsg  = "txmsg"
	Direct = "direct"

	Kafka    = "kafka"
	RabbitMQ = "rabbitmq"
	RocketMQ = "rocketmq"
	NATS     = "nats"
	Embedded = "embedded"

	PostgreSQL = "postgres"
	MySQL      = "mysql"
	SQLite     = "sqlite"
)

// Case is a use case. The zero value is the most careful: events of high value,
// in the order of their keys, few of them, and nothing at hand.
type Case struct {
	// Value defaults to ValueHigh, Order to OrderKey, Away to AwayGoOn and Team to
	// TeamSmall.
	Value Value `json:"value"`
	Order Order `json:"order"`
	Away  Away  `json:"broker_away"`
	Team  Team  `json:"team"`
	// Rate is the number of events per second at the busiest. Defaults to 100.
	Rate float64 `json:"rate"`
	// Delay is how long after its commit an event may come, while all is well.
	// Defaults to a second.
	Delay time.Duration `json:"-"`
	// Brokers and Databases are those at hand. Default to none: one is proposed.
	Brokers   []string `json:"brokers"`
	Databases []string `json:"databases"`
}

// Brokers returns the names of brokers that a Case knows.
func Brokers() []string { return []string{Kafka, RabbitMQ, RocketMQ, NATS, Embedded} }

// Databases returns those of databases.
func Databases() []string { return []string{PostgreSQL, MySQL, SQLite} }

func (c Case) withDefaults() Case {
	for _, d := range []struct {
		at *string
		is string
	}{{(*string)(&c.Value), string(ValueHigh)}, {(*string)(&c.Order), string(OrderKey)}, {(*string)(&c.Away), string(AwayGoOn)}, {(*string)(&c.Team), string(TeamSmall)}} {
		if *d.at == "" {
			*d.at = d.is
		}
	}
	if c.Rate == 0 {
		c.Rate = 100
	}
	if c.Delay == 0 {
		c.Delay = time.Second
	}
	return c
}

// Check returns an error that names the first word which is none of a Case's,
// with those that are.
func (c Case) Check() error {
	c = c.withDefaults()
	for _, w := range []struct {
		of, is string
		known  []string
	}{
		{"value", string(c.Value), []string{string(ValueHigh), string(ValueLow)}},
		{"order", string(c.Order), []string{string(OrderKey), string(OrderNone)}},
		{"broker-away", string(c.Away), []string{string(AwayGoOn), string(AwayRefuse)}},
		{"team", string(c.Team), []string{string(TeamSmall), string(TeamPlatform)}},
	} {
		if !slices.Contains(w.known, w.is) {
			return fmt.Errorf("%s is %q; it is %s", w.of, w.is, strings.Join(w.known, " or "))
		}
	}
	if c.Rate < 0 || c.Rate > 10_000_000 {
		return fmt.Errorf("rate is %v; it is more than 0 and at most 10,000,000 events per second", c.Rate)
	}
	if c.Delay < 0 {
		return fmt.Errorf("delay is %v; it is more than 0", c.Delay)
	}
	if err := known("broker", c.Brokers, Brokers()); err != nil {
		return err
	}
	return known("database", c.Databases, Databases())
}

func known(what string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s is %q; there are %s", what, name, strings.Join(all, ", "))
		}
	}
	return nil
}

func (c Case) has(broker string) bool { return slices.Contains(c.Brokers, broker) }
