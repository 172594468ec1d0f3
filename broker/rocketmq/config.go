package rocketmq

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/settlemq/settle/broker/cloudevents"
)

// Config shapes a Broker. The zero value works against topics that exist.
type Config struct {
	// Topics are declared by Open: made when they are missing, and given a fixed
	// list of queues when they have none. Defaults to none.
	Topics []string
	// Declare does the same to a topic on its first use. Defaults to false: a topic
	// that does not exist is a topic error.
	Declare bool
	// Queues is how many a topic that is made gets on each master. Defaults to 8.
	Queues int
	// Any lets the keys of a node that is down go to others, which breaks their
	// order: those that wait there come after those that went elsewhere. Defaults to
	// what the URL says, else to false: the keys wait.
	Any bool
	// MaxRecordBytes bounds the body of an event: a larger one is refused for good
	// before it is sent. Brokers take 4 MiB unless told otherwise. Defaults to 2 MiB.
	MaxRecordBytes int
	// Timeout bounds each request to a server. Defaults to 5 s.
	Timeout time.Duration
	// ConnectTimeout is how long Open goes on trying. Defaults to 10 s.
	ConnectTimeout time.Duration
	// PullWait is how long a server holds a request for records when it has none.
	// Defaults to 10 s.
	PullWait time.Duration
	// RouteEvery is how often the name servers are asked where topics are. Defaults
	// to 10 s.
	RouteEvery time.Duration
	// Name is the producer group that brokers see. Defaults to "settle".
	Name string
	// Wire is the form in which events are written; every form is read. Defaults to
	// what the URL says, else to Settle's envelope.
	Wire cloudevents.Wire
	// Dial makes connections, which are encrypted where the URL says so. Defaults to
	// TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes warnings. Defaults to none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.Queues, 8)
	setDefault(&c.MaxRecordBytes, 2<<20)
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.PullWait, 10*time.Second)
	setDefault(&c.RouteEvery, 10*time.Second)
	if c.Name == "" {
		c.Name = "settle"
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[N int | time.Duration](field *N, to N) {
	if *field <= 0 {
		*field = to
	}
}
