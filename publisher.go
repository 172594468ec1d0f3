package settle

import (
	"context"
	"errors"
)

// Message is an event on its way to a broker.
type Message struct {
	// ID is the broker's message id: the event id, or event id#n for the n-th
	// resend asked for by a person. It is the same on every retry.
	ID string
	// Event is owned by the caller and not changed by the publisher.
	Event *Event
	// Epoch is the relay's lease epoch, sent as a header.
	Epoch int64
	// Source names the relay's outbox (service) and is sent as producer app.
	Source string
	// Lead says what the relay leads; it is not sent.
	Lead Lead
}

// Lead is what a relay leads, for publishers that fence one which was replaced.
type Lead struct {
	// Outbox and Lane name it: at most one relay at a time holds its lease.
	Outbox string
	Lane   int
	// Load counts how often the relay has loaded its state, each time with proof
	// that the lease is still its own. What it publishes was decided by the last.
	Load int64
}

// Validate reports why m can't be encoded for the wire, as a permanent
// *PublishError of ScopeRecord. Publishers call it before they send; it says
// nothing of sizes, which are the broker's to judge.
func (m Message) Validate() error {
	err := m.check()
	if err == nil {
		return nil
	}
	return &PublishError{Scope: ScopeRecord, Err: Permanent(err)}
}

func (m Message) check() error {
	e := m.Event
	switch {
	case e == nil:
		return errors.New("message has no event")
	case m.ID == "" || hasControl(m.ID):
		return e.invalid("message id", "is empty or contains a control character")
	case e.ID == "":
		return e.invalid("eventId", "is empty")
	case e.Type == "":
		return e.invalid("type", "is empty")
	case e.AggregateID == "":
		return e.invalid("aggregateId", "is empty; it is the key that orders events")
	case e.AggregateSeq < 0:
		return e.invalid("aggregateSeq", "is negative; it counts from 1, 0 means not counted")
	case e.Version < 0:
		return e.invalid("version", "is negative; it counts from 1")
	}
	if err := e.validateTimes(); err != nil {
		return err
	}
	if err := e.validateFields(); err != nil {
		return err
	}
	return e.validateBody()
}

// Receipt is what became of one message of a batch.
type Receipt struct {
	// At is where the broker keeps it; zero when Err is not nil.
	At Coordinates
	// Duplicate is true when the broker said that it had the id already.
	Duplicate bool
	// Err is nil only if the broker holds the message durably.
	Err error
}

// Coordinates say where a broker keeps a record. Offset is its position in
// the partition (Kafka, RocketMQ) or the stream sequence (JetStream); brokers
// without positions leave it 0.
type Coordinates struct {
	Topic     string `json:"topic,omitempty"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Publisher hands messages to one broker.
type Publisher interface {
	// Publish sends batch in order and waits for the broker's answer to each
	// message, or until ctx ends. The result has one Receipt per message, by
	// index.
	//
	// When a message fails, no later message of the batch with its key is
	// acknowledged: it is either not sent or reported failed too. An error is a
	// *PublishError; a message whose outcome is not known is ScopeBroker and
	// will be published again with the same ID.
	//
	// ErrFenced means that another process publishes for what the messages' Lead
	// names, or that this one has only just begun to: nothing of the batch is
	// acknowledged. The relay loads its state anew, by which it learns whether it
	// still leads, and publishes with a higher Load.
	//
	// Publish may be called from several goroutines, but the caller has at most
	// one call in flight per key. It never panics on bad input: an event that
	// can't be encoded is ScopeRecord. After Close every receipt is ErrClosed.
	Publish(ctx context.Context, batch []Message) []Receipt
}
