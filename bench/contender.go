package main

import (
	"context"
	"time"
)

// contender is one way to carry events from a table to a broker.
type contender struct {
	// name is how a flag calls it, title how the table does; both are the same
	// on every database.
	name, title string
	layout      layout
	// carry publishes all events, those to come too, until ctx is done. It
	// returns nil then, after it has written down what it has published.
	carry func(ctx context.Context, c conditions) error
	// share divides the count of events for those that would take minutes.
	share int
}

// conditions are what a contender finds.
type conditions struct {
	url string
	out *sink
	// broker is the URL of the one to publish to, at the topic drainTopic; "" for
	// those that publish into the sink.
	broker string
	// lease is how long a process that was killed may hold up its successor,
	// for those that have leases; 0 is their default.
	lease time.Duration
}

// drainTopic is where events from a table go.
const drainTopic = "settle-bench-drain"

// rawName is what others are compared with.
const rawName = "raw"

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
