package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// contender is one way to carry events from a table to a broker.
type contender struct {
	// name is how a flag calls it, title how the table does.
	name, title string
	layout      layout
	// prepare makes what must be there before the first event. Nil: nothing.
	prepare func(ctx context.Context, conn *pgx.Conn) error
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
	// lease is how long a process that was killed may hold up its successor,
	// for those that have leases; 0 is their default.
	lease time.Duration
}

// contenders in the order of the table. The raw limit is what others are
// compared with.
func contenders() []contender {
	return []contender{raw(), settleDefault(), settleLean(), settleAdopted(), settleUnprojected(), replication(), classic(), watermillLarge(), watermillDefault(), tutorial()}
}

const rawName = "raw"

func find(name string) (contender, bool) {
	for _, c := range contenders() {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
