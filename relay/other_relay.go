package relay

import (
	"context"
	"time"
)

// OtherRelay is what was seen of a relay that is not Settle's at work on the
// table of an outbox: rows that it has sent, or taken in hand, by itself.
type OtherRelay struct {
	// Rows were sent or taken by it since the table was adopted, the last of them
	// LastID. They were noticed last at SeenAt; zero: none were.
	Rows, LastID int64
	SeenAt       time.Time
	// AtWork is true for a while after its last trace.
	AtWork bool
}

// Lookout is what a Store may have besides, of a table that others may relay as
// well: health checks ask it, with or without a lease.
type Lookout interface {
	// OtherRelay returns what leaders have noticed until now; the zero value for
	// a table that is Settle's own. It may be called from several goroutines.
	OtherRelay(ctx context.Context) (OtherRelay, error)
}
