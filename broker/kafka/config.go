package kafka

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
	// they break what a topic promises or have another number of partitions
	// than Partitions says. Defaults to none.
	Topics []string
	// Declare makes a missing topic on its first use. Defaults to false: a
	// topic that does not exist is a topic error.
	Declare bool
	// Partitions of a topic that is made, and the most that its foreign
	// consumers can work on at a time; a member of Settle's works on several
	// keys of a partition. More may be added later, which moves keys to other
	// partitions. Defaults to 12 for a topic that is made, and to what it has
	// for one that exists.
	Partitions int
	// Replicas of a topic that is made; with three or more, all but one must have
	// what is acknowledged. Defaults to 3, or as many as the cluster has nodes.
	Replicas int
	// KeepFor is how long a topic that is made keeps a record, read or not.
	// Defaults to 7 days.
	KeepFor time.Duration
	// MaxRecordBytes bounds a record, its value, key and headers together: a
	// larger one is refused for good before it is sent. Topics that are made
	// take as much. Defaults to 2 MiB.
	MaxRecordBytes int
	// Fence publishes what a relay sends in transactions, under a transactional id
	// for each outbox and lane: a relay that was replaced and wakes up publishes
	// nothing that consumers see who read what is committed. It costs throughput
	// and time; the URL's fence=true sets it, too. Defaults to false.
	Fence bool
	// InstanceID is the static membership of this process in each group that
	// it joins: a restart within the session's time moves no partitions. Each
	// process needs one of its own. Defaults to none.
	InstanceID string
	// SessionTimeout is how long a group waits for a member that is silent
	// before it gives its partitions to others. Defaults to 15 s.
	SessionTimeout time.Duration
	// DrainTimeout is how long a member that must give partitions away waits for
	// deliveries in flight before it cancels them. Defaults to 5 s.
	DrainTimeout time.Duration
	// Timeout bounds each request to a broker. Defaults to 3 s.
	Timeout time.Duration
	// ConnectTimeout is how long Open goes on trying. Defaults to 10 s.
	ConnectTimeout time.Duration
	// RefreshEvery is how soon partitions that were added are seen. Defaults to
	// 30 s.
	RefreshEvery time.Duration
	// Name is the client id, shown by the cluster's monitoring and counted by
	// its quotas. Defaults to "settle".
	Name string
	// Wire is the form in which events are written; every form is read. Defaults to
	// what the URL says, else to Settle's envelope.
	Wire cloudevents.Wire
	// Dial makes connections; where the URL says so, TLS is spoken over them.
	// Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes warnings. Defaults to none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.KeepFor, 7*24*time.Hour)
	setDefault(&c.MaxRecordBytes, 2<<20)
	setDefault(&c.SessionTimeout, 15*time.Second)
	setDefault(&c.DrainTimeout, 5*time.Second)
	setDefault(&c.Timeout, 3*time.Second)
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.RefreshEvery, 30*time.Second)
	if c.Name == "" {
		c.Name = "settle"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// defaultPartitions are those of a topic that is made.
const defaultPartitions = 12

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
