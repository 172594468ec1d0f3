package drill

import (
	"context"

	"github.com/settlemq/settle"
)

// Tap reaches into a broker behind the toolkit's back: it reads its log from
// the beginning and writes records as a foreign program would.
type Tap interface {
	// ReadAll calls visit with every record that topic's log holds now, those of
	// one partition in the order in which the broker stored them. A topic that is
	// missing holds none.
	ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error
	// ReadSome does the same with up to n consecutive records from one place in
	// the log: 0 is its beginning, 1 its end.
	ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error
	// Plant stores a value as it is and returns where, once the broker has
	// acknowledged it, in a partition by its number modulo how many there are.
	// Under one message id a tap stores it once.
	Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error)
}
