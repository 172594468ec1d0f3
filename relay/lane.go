package relay

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"strconv"
	"time"
)

// Lane is one of the relays that share an outbox table: each reads every id,
// and the payloads of its own keys only.
type Lane struct {
	// Number names the lane in Config, Lease and the store's tables. No other
	// lane, of this or another generation, has it.
	Number int `json:"lane"`
	// Generation is a division of the table. It begins where the one before has
	// ended, with every lane of it.
	Generation int `json:"generation"`
	// Index counts the lanes of a generation, from 0 to Of - 1. The zero value
	// is that of a table which was never divided.
	Index int `json:"index"`
	Of    int `json:"of"`
}

// HasForerunners reports whether other lanes have read, or read now, what this one
// owns: an id that it finds cold may be of a row that one of them has dealt with.
func (l Lane) HasForerunners() bool { return l.Of > 1 || l.Generation > 1 }

// Owns reports whether rows of a key are this lane's. key is as Row.Key says.
func (l Lane) Owns(key string) bool { return LaneOf(key, l.Of) == l.Index }

// LaneOf returns the index of the lane that owns a key. It goes by MD5, which
// every database can compute beside the row, so that a payload of another lane
// need not be read to know that it is one. It has nothing to do with where the
// broker puts the key: the lanes share each partition.
func LaneOf(key string, lanes int) int {
	if lanes <= 1 {
		return 0
	}
	sum := md5.Sum([]byte(key))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(lanes))
}

// keyOf is the order key of a row; one that has none is alone with its own.
func keyOf(id int64, key string) string {
	if key == "" {
		return "#" + strconv.FormatInt(id, 10)
	}
	return key
}

// ErrLaneEnded is how Run ends when the table was divided anew: all that this
// lane had to do is done or handed over, and the lanes of the next generation
// go on.
var ErrLaneEnded = errors.New("the lane has ended; the table was divided anew and other lanes go on")

// Lanes is what a Store may have besides: its table can be read by several
// relays, each of which needs a Store of its own.
type Lanes interface {
	// Lanes returns the lanes that may have something to do now: those of the
	// newest generation, and those of the ones before that have not ended. It
	// notes that a crew of this name lives until ttl has passed, and returns how
	// many do; where there is one lane nothing is noted, and it returns 1.
	Lanes(ctx context.Context, crew string, ttl time.Duration) (lanes []Lane, crews int, err error)
}
