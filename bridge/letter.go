package bridge

import (
	"time"

	"github.com/settlemq/settle"
)

// HeaderReturn is set by Source.Return to the id of the return. A letter that
// has it is one that died again after a replay.
const HeaderReturn = "settle-return-id"

// Bounds that a source keeps, so that no letter can swell what keeps it.
const (
	// MaxIdentity is the longest Letter.Identity in bytes.
	MaxIdentity = 128
	// MaxCause is the longest Letter.Message, MaxTrace the longest Letter.Trace
	// in bytes: what is longer is cut, at the end of a character, and ends in "…".
	MaxCause = 4 << 10
	MaxTrace = 32 << 10
	// MaxHistory is how many deaths a letter tells of: the newest.
	MaxHistory = 32
)

// Letter is a message that a consumer which is not ours has given up on.
type Letter struct {
	// Identity names this death: printable ASCII of at most MaxIdentity bytes
	// (a digest, where the parts are longer). It is the same on every delivery
	// of the letter, by any connection, and no other death has it in its group:
	// not another message, and not the same message that died again after a
	// replay. Where the broker numbers records it is the letter's own place
	// (with the topic's id, since a topic made anew counts anew); where it does
	// not, it is made of what the message carries, its return id among it.
	Identity string
	// Group is the consumer group that has given up: Group.Name of the source.
	Group string
	// At is where it lies, From where the consumer had it from. Fields of From
	// that nothing tells are empty.
	At, From Place
	// Record is the message as it lies there: Raw is unchanged, Headers are all
	// of them as text, foreign ones and the broker's own too, Key and RecordedAt
	// as the broker has them. Event is the decoded envelope, or DecodeErr says
	// why there is none: services write what they like. At of it is where it lies.
	Record settle.Record
	// Class is the coarse kind of the failure: settle.ClassDecode where DecodeErr
	// is set or the consumer says that it could not read it, ClassCrashLoop where
	// the broker gave up on delivering it, ClassExpired, ClassOverflow, and
	// settle.ClassHandler where nothing says better.
	Class settle.Class
	// Exception is the class of the exception as the consumer's framework names
	// it, Message its message, Trace its stack. Each is empty where there is none.
	Exception, Message, Trace string
	// Attempts the consumer has made, 0 where nothing tells.
	Attempts int
	// DiedAt is when it was given up; the broker's time of the letter where
	// nothing tells better.
	DiedAt time.Time
	// History holds earlier deaths, newest first: what AMQP calls x-death.
	History []Death
	// To are the targets that Return can reach for this letter.
	To []Target
	// ReturnID is HeaderReturn of the message: the return after which it died
	// again. Empty for a first death.
	ReturnID string
	// Wrapping is what the adapter needs beside Raw, Key and Record.Headers to
	// return the message as it was: typed headers, properties. It is the
	// adapter's own encoding, at most 64 KiB, kept as it is.
	Wrapping []byte
}

// Classes of failures that only brokers tell of.
const (
	// ClassExpired: nobody took it within its time to live.
	ClassExpired settle.Class = "expired"
	// ClassOverflow: its queue was full.
	ClassOverflow settle.Class = "queue_overflow"
)
