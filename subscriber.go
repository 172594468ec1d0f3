package settle

import (
	"context"
	"time"
)

// Subscriber delivers the records of topics to one member of a consumer group.
type Subscriber interface {
	// Subscribe passes records to sink until ctx is done, then waits for the
	// calls in flight and returns nil. It reconnects for ever with capped
	// back-off; it returns an error only for what can't succeed by waiting: an
	// invalid subscription, ErrNewGeneration, ErrClosed.
	//
	// Records of one partition are delivered in order, one call at a time;
	// different partitions concurrently. A nil result of Sink.Deliver
	// acknowledges the records for good; after any error the same records are
	// delivered again, from the first one, after a short wait.
	Subscribe(ctx context.Context, s Subscription, sink Sink) error
}

// Broker is both ends of one broker connection.
type Broker interface {
	Publisher
	Subscriber
	// Close ends the connection after calls in flight have returned or failed.
	// Closing twice is harmless.
	Close() error
}

// Subscription says what a member wants to receive.
type Subscription struct {
	// Group is the consumer group; its members share the partitions.
	Group string
	// Topics to read. At least one.
	Topics []string
	// MaxRecords and MaxBytes bound one call of Deliver. Default to 256 and 1 MiB.
	MaxRecords, MaxBytes int
	// Ownership assigns partitions on brokers that leave that to us
	// (JetStream) and gives the position to start from. Required there,
	// ignored by brokers that assign partitions themselves.
	Ownership Ownership
}

// Sink takes records. The consumer is the sink of its subscription.
type Sink interface {
	// Deliver takes consecutive records of one partition and returns nil when
	// all of them are durably dealt with (applied, recorded or parked). It
	// blocks until then; that is the back-pressure. It does not keep records
	// after it returns.
	Deliver(ctx context.Context, p Partition, records []Record) error
}

// Partition names an ordered part of a topic, as owned by a member.
type Partition struct {
	Topic  string
	Number int
	// Owner and Epoch fence the owner's writes where ownership is leased from
	// our own store; Epoch 0 means that the broker assigns partitions and no
	// floor is kept.
	Owner string
	Epoch int64
	// Generation identifies this life of the stream (its creation time).
	Generation string
}

// Floor is how far a group has come in a partition: everything up to and
// including Position is done.
type Floor struct {
	Generation string
	Position   int64
	// EventID is the id of the record at Position, to notice a stream that was
	// restored or made anew.
	EventID string
}

// Claim is a partition that this member owns until the lease runs out.
type Claim struct {
	Partition Partition
	Floor     Floor
	// Deaths counts owners of this partition in a row that ended without a
	// clean release and without moving the floor.
	Deaths int
	// Expires is when the lease ends unless it is renewed, by this process's
	// clock at the time of the call.
	Expires time.Time
}

// Ownership leases partitions to members of a group.
type Ownership interface {
	// Claim renews what this member owns of topic's n partitions, takes over
	// its fair share of what is free or expired, and returns all it now owns.
	// It is called about every third of the lease.
	Claim(ctx context.Context, topic string, n int) ([]Claim, error)
	// RaiseFloor moves the floor of an idle partition up to position although
	// no record was delivered (records of other keys were purged or skipped).
	RaiseFloor(ctx context.Context, p Partition, to Floor) error
}

// Record is one record as it was found at the broker.
type Record struct {
	// Position is its place in the partition; consecutive records have rising,
	// not always adjacent, positions.
	Position int64
	// Event is the decoded envelope, nil when DecodeErr is set.
	Event *Event
	// DecodeErr says why the record could not be understood. Raw then becomes
	// a dead letter.
	DecodeErr error
	// Raw is the value as found, Headers its headers. Of an event that came in
	// another wire format they are its envelope and what would go with that.
	Raw     []byte
	Headers map[string]string
	// Key is the record's key: AggregateID, or what the broker has.
	Key string
	// RecordedAt is the broker's time of the record; zero when it has none.
	RecordedAt time.Time
	// At says where it was found.
	At Coordinates
}
