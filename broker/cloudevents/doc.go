// Package cloudevents writes and reads events as CloudEvents 1.0, in the binary
// and the structured content mode, over the bindings of Kafka, AMQP and NATS, and
// as user properties of RocketMQ. It is pure: adapters hand it what they send and
// what they found.
//
// An event that Settle has written is read back with every field equal. One of
// another producer is read as far as its attributes go, and every extension of
// its is a header. docs/cloudevents.md has the tables.
package cloudevents
