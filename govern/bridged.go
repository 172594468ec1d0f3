package govern

import "time"

// Bridged is what a dead letter of a consumer that is not ours says beyond what
// all do: it was brought in from the broker's own dead-letter place.
type Bridged struct {
	// At is where it lay at the broker, From where its consumer had it from.
	At   Place `json:"at"`
	From Place `json:"from"`
	// DiedAt is when its consumer gave it up, BridgedAt when it was stored here.
	DiedAt    time.Time `json:"died_at"`
	BridgedAt time.Time `json:"bridged_at"`
	// Exception is its class, Message what it says, Trace where it was thrown.
	Exception string `json:"exception,omitempty"`
	Message   string `json:"message,omitempty"`
	Trace     string `json:"trace,omitempty"`
	// History holds earlier deaths, newest first, as the broker tells of them.
	History []Death `json:"history,omitempty"`
	// To are the targets that it can be replayed to.
	To []Target `json:"to"`
	// Before is the dead letter after whose replay it died again; 0 for none.
	Before int64 `json:"died_before,omitempty"`
	// Target is where its last replay goes, Tries how often that was tried without
	// an end, Refused why it has not come about; empty for none.
	Target  Target `json:"target,omitempty"`
	Tries   int    `json:"tries,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Target says how far a dead letter of a consumer that is not ours goes back.
type Target string

const (
	// ToGroup: only its group receives it: by the group's own queue, or by a
	// retry topic that no other group reads.
	ToGroup Target = "group"
	// ToOrigin: it is published again where it came from, and every group that
	// reads there receives it again.
	ToOrigin Target = "origin"
)

// Place is where a message lies, or lay: topic, partition and offset of Kafka;
// exchange, routing key and queue of RabbitMQ.
type Place struct {
	Topic      string `json:"topic,omitempty"`
	Partition  int    `json:"partition,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
	Queue      string `json:"queue,omitempty"`
}

// Death is one entry of a letter's history.
type Death struct {
	Place  Place     `json:"place"`
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	At     time.Time `json:"at"`
}
