package relay

import (
	"context"
	"time"
)

// Backlog is what an outbox holds that the broker has not acknowledged.
type Backlog struct {
	// Pending rows are sent as soon as that is possible. Parked ones are those
	// of blocked keys: they wait for a retry, or for a person. Rows put aside
	// until later are in neither.
	Pending, Parked int
	// More is true when a bound cut a count.
	More bool
	// Oldest is when the oldest of those counted was appended; zero if there
	// is none.
	Oldest time.Time
}

// Gauge is what a Store may have besides: people and health checks ask it,
// with or without a lease.
type Gauge interface {
	// Backlog looks at no more than limit rows of each kind. It may be called
	// from several goroutines.
	Backlog(ctx context.Context, limit int) (Backlog, error)
}
