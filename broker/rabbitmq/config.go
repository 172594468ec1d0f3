package rabbitmq

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/settlemq/settle/broker/cloudevents"
)

// Config shapes a Broker. The zero value works against topics that exist.
type Config struct {
	// Topics are declared by Open: made when they are missing, refused when
	// they are something else than is said here. Defaults to none.
	Topics []string
	// Groups are the consumer groups whose queues are declared with each of
	// Topics, and with a topic that is made on its first use. RabbitMQ keeps an event only in the queues that are there when it
	// comes: a group that is not declared ahead gets what is published from its
	// first Subscribe on. Defaults to none.
	Groups []string
	// Declare makes a missing topic on its first use. Defaults to false: a
	// topic that does not exist is a topic error.
	Declare bool
	// Kind is the kind of exchange that a topic is: "fanout", or "topic" where
	// queues of others are bound by the type of event, which is the routing key.
	// Defaults to "fanout".
	Kind string
	// Partitions is the number of queues of a group that is declared, and the
	// most that can be worked on at a time. All members of a group say the same.
	// More may be added later, which moves keys to other queues. Defaults to 8.
	Partitions int
	// DeliveryLimit is how often a queue delivers an event again, counted by
	// lost connections, before it moves it to the group's queue of dead ones.
	// It is high because every event that waits in a member's hands is counted.
	// Defaults to 1000.
	DeliveryLimit int
	// MaxRecordBytes bounds an event, its body, properties and headers together:
	// a larger one is refused for good before it is sent. Defaults to 2 MiB.
	MaxRecordBytes int
	// Window is how many events of a call of Publish and a topic wait for their
	// confirms at a time, each of another key. Defaults to 512.
	Window int
	// Prefetch is how many events of each queue are in a member's hands at a
	// time. RabbitMQ does not count their bytes. Defaults to 128.
	Prefetch int
	// DrainTimeout is how long a member that gives a queue away, or ends, waits
	// for the delivery in flight before it cancels it. Defaults to 5 s.
	DrainTimeout time.Duration
	// Heartbeat is how often each side shows that it is there; one that is
	// silent for three of them is gone. Defaults to 5 s.
	Heartbeat time.Duration
	// Timeout bounds each request to the broker. Defaults to 10 s.
	Timeout time.Duration
	// ConnectTimeout is how long Open goes on trying. Defaults to 10 s.
	ConnectTimeout time.Duration
	// Name is shown by the broker's list of connections. Defaults to "settle".
	Name string
	// Wire is the form in which events are written; every form is read. Defaults to
	// what the URL says, else to Settle's envelope.
	Wire cloudevents.Wire
	// Dial makes connections, which are encrypted where the URL says so.
	// Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes warnings. Defaults to none.
	Log *slog.Logger
}

// exchangeFanout is the kind whose routing does not depend on the event.
const exchangeFanout = "fanout"

func (c Config) withDefaults() Config {
	setDefault(&c.Partitions, 8)
	setDefault(&c.DeliveryLimit, 1000)
	setDefault(&c.MaxRecordBytes, 2<<20)
	setDefault(&c.Window, 512)
	setDefault(&c.Prefetch, 128)
	setDefault(&c.DrainTimeout, 5*time.Second)
	setDefault(&c.Heartbeat, 5*time.Second)
	setDefault(&c.Timeout, 10*time.Second)
	setDefault(&c.ConnectTimeout, 10*time.Second)
	if c.Kind == "" {
		c.Kind = exchangeFanout
	}
	if c.Name == "" {
		c.Name = "settle"
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
