package nats

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle/broker/cloudevents"
)

// Config shapes a Broker. The zero value works against topics that exist.
type Config struct {
	// Topics are declared by Open: made when they are missing, refused when
	// they differ from what is said here. Defaults to none.
	Topics []string
	// Declare makes a missing topic on its first use. Defaults to false: a
	// topic that does not exist is a topic error.
	Declare bool
	// Partitions of a topic that is made. It is fixed then. Defaults to 16.
	Partitions int
	// Replicas of a topic that is made. Defaults to what the URL says, else to 3
	// in a cluster and 1 without.
	Replicas int
	// MaxBytes bounds what a declared topic keeps. When it is full, publishing
	// fails and nothing is dropped. Defaults to 8 GiB.
	MaxBytes int64
	// KeepFor is how long a declared topic keeps a record, read or not.
	// Defaults to 7 days.
	KeepFor time.Duration
	// Timeout bounds each call of the broker. Defaults to 5 s.
	Timeout time.Duration
	// ConnectTimeout is how long Open goes on trying. Defaults to 10 s.
	ConnectTimeout time.Duration
	// IdleAfter is how long a partition is quiet before its floor is raised to
	// the end of the topic. Defaults to 5 s.
	IdleAfter time.Duration
	// Name is shown by the server's monitoring. Defaults to "settle".
	Name string
	// InProcess connects to a server in this process, whatever host and port the URL
	// names: it carries the token. Defaults to none.
	InProcess nats.InProcessConnProvider
	// Wire is the form in which events are written; every form is read. Defaults to
	// what the URL says, else to Settle's envelope.
	Wire cloudevents.Wire
	// Dial makes connections, for tests that stand between. Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes warnings. Defaults to none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Partitions <= 0 {
		c.Partitions = 16
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 8 << 30
	}
	if c.KeepFor <= 0 {
		c.KeepFor = 7 * 24 * time.Hour
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = 5 * time.Second
	}
	if c.Name == "" {
		c.Name = "settle"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
