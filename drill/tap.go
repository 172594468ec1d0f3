package drill

import (
	"context"

	"github.com/settlemq/settle"
)

// Tap reaches into a broker behind the toolkit's back: it reads its log from
// the beginning and writes records as a foreign program would.
type Tap interface {
	// Bounds returns the positions of the first and the last record of topic's
	// log; last is 0 when it is empty.
	Bounds(ctx context.Context, topic string) (first, last int64, err error)
	// ReadLog calls visit with every record from one position up to and
	// including another, in the order in which the broker stored them.
	ReadLog(ctx context.Context, topic string, from, to int64, visit func(settle.Record) error) error
	// Plant stores a value as it is and returns where, once the broker has
	// acknowledged it. Under one message id it is stored once.
	Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error)
}
