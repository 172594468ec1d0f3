package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/settlemq/settle"
)

// of returns some messages of a batch as one of their own, to be sent by a
// producer.
func (p *publication) of(some []int, with producer) *publication {
	batch := make([]settle.Message, len(some))
	for i, at := range some {
		batch[i] = p.batch[at]
	}
	part := newPublication(p.b, p.ctx, batch)
	part.with = with
	return part
}

// take takes the receipts of some messages that were sent apart.
func (p *publication) take(some []int, part *publication) {
	for i, at := range some {
		if err := part.receipts[i].Err; err != nil {
			p.fail(at, err)
			continue
		}
		p.receipts[at] = part.receipts[i]
	}
}

// failAll fails some messages for one reason.
func (p *publication) failAll(some []int, err error) {
	for _, at := range some {
		p.fail(at, err)
	}
}

// open returns those of some messages that have not failed, and are not behind
// one of their key that has.
func (p *publication) open(some []int) []int {
	left := make([]int, 0, len(some))
	for _, at := range some {
		if p.receipts[at].Err == nil && !p.heldBack(at) {
			left = append(left, at)
		}
	}
	return left
}

// failTopics fails those of some messages whose topic took nothing when they
// were sent apart, and reports whether there are any.
func (p *publication) failTopics(some []int, part *publication) (any bool) {
	broken := map[string]error{}
	for i, r := range part.receipts {
		if r.Err != nil && settle.ScopeOf(r.Err) == settle.ScopeTopic {
			broken[topicOf(part.batch[i])] = r.Err
		}
	}
	for _, at := range some {
		if err := broken[topicOf(p.batch[at])]; err != nil {
			p.fail(at, err)
		}
	}
	return len(broken) > 0
}

// madeAnew reports whether a topic was made anew, or deleted, that the producer
// has written to: it would go on asking for the old one.
func (p *publication) madeAnew() bool {
	for i, r := range p.receipts {
		if p.with.known[topicOf(p.batch[i])] && isAny(r.Err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition) {
			return true
		}
	}
	return false
}
