package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

const (
	// minBatch is where an atomic batch begins to pay for its fsyncs.
	minBatch = 20
	// maxBatch and maxBatchBytes bound one atomic batch; the server's own limit
	// is 1,000 messages.
	maxBatch      = 500
	maxBatchBytes = 4 << 20
	// roomForBatch is left below the server's size limit for the headers of an
	// atomic batch.
	roomForBatch = 256
	// restartWait is how long Publish waits for a connection that is being
	// restored before it gives up.
	restartWait = time.Second
)

// outgoing is one message on its way to a topic.
type outgoing struct {
	index   int // in the caller's batch
	key     string
	subject string
}

// publication is one call of Publish.
type publication struct {
	b        *Broker
	ctx      context.Context
	batch    []settle.Message
	receipts []settle.Receipt
	// failed holds, per key, the first message that failed: it holds back the
	// later ones.
	failed map[string]int
}

// Publish implements settle.Publisher. Of a topic it sends atomic batches, one
// at a time; fewer than 20 messages, and those of a batch that was refused, go
// one by one, at most one per key and 16 in all in flight.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	p := publication{b: b, ctx: ctx, batch: batch, receipts: make([]settle.Receipt, len(batch)), failed: map[string]int{}}
	if err := b.begin(); err != nil {
		for i := range p.receipts {
			p.receipts[i].Err = err
		}
		return p.receipts
	}
	defer b.calls.Done()
	// A topic at a time, in the order of the batch: a key whose message failed
	// at one topic is held back at the next.
	for from := 0; from < len(batch); {
		to := from + 1
		for to < len(batch) && topicOf(batch[to]) == topicOf(batch[from]) {
			to++
		}
		p.run(from, to)
		from = to
	}
	return p.receipts
}

func topicOf(m settle.Message) string {
	if m.Event == nil || m.Event.Topic == "" {
		return settle.DefaultTopic
	}
	return m.Event.Topic
}

// run sends messages from to to, all of one topic.
func (p *publication) run(from, to int) {
	for i := from; i < to; i++ {
		if err := p.batch[i].Validate(); err != nil {
			p.fail(i, err)
		}
	}
	patience, stop := context.WithTimeout(p.ctx, restartWait)
	session, err := p.b.link.await(patience)
	stop()
	if err != nil {
		p.failAll(from, to, &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not connected: %w", err)})
		return
	}
	ctx, cancel := within(p.ctx, session)
	defer cancel()
	name := topicOf(p.batch[from])
	t, err := p.b.topic(ctx, name)
	if err != nil {
		known := classify(err)
		p.failAll(from, to, &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("%q: %w", name, known.Err)})
		return
	}
	if ready, down := p.sendAll(ctx, t, p.outgoing(t, from, to)); down != nil {
		p.notSent(ready, down)
	}
}

// sendAll sends messages in atomic batches. One that holds a duplicate is
// refused whole, so the next is half as large, and few enough go one by one:
// after an answer was lost some messages are duplicates and most are not, and
// to send those one by one would not be done in the time that there is, leave
// new doubts and so never end.
func (p *publication) sendAll(ctx context.Context, t *topic, ready []outgoing) (rest []outgoing, down error) {
	for size := maxBatch; len(ready) > 0 && down == nil; {
		ready = p.unblocked(ready)
		part := ready[:min(len(ready), size)]
		if len(part) < minBatch {
			size = minBatch
			part = ready[:min(len(ready), size)]
			down = p.singles(ctx, t, part)
			ready = ready[len(part):]
			continue
		}
		left, err := p.atomic(ctx, t, part)
		var refused *refusal
		if errors.As(err, &refused) && refused.Code == codeBatchDuplicate {
			size = len(part) / 2
			continue
		}
		down = err
		size = min(2*size, maxBatch)
		ready = ready[len(part)-len(left):]
	}
	return ready, down
}

// outgoing lists the valid messages with their partitions.
func (p *publication) outgoing(t *topic, from, to int) []outgoing {
	ready := make([]outgoing, 0, to-from)
	for i := from; i < to; i++ {
		if p.receipts[i].Err == nil {
			key := p.batch[i].Event.Key()
			ready = append(ready, outgoing{index: i, key: key, subject: t.subjects[settle.PartitionOf(key, len(t.subjects))]})
		}
	}
	return ready
}

// encode builds o's message, with its value in buf, and returns its size. One
// that is too large is refused.
func (p *publication) encode(t *topic, o outgoing, buf []byte) (*nats.Msg, int, error) {
	m := p.batch[o.index]
	x := p.b.cfg.Wire.Encode(cloudevents.NATS, m, buf)
	header, size := encodeHeaders(m, x.Headers, t.stream)
	data := x.Value
	size += len(data)
	if limit := int(p.b.nc.MaxPayload()) - roomForBatch; size > limit {
		return nil, size, settle.TooLarge(m.Event, size, limit)
	}
	return &nats.Msg{Subject: o.subject, Header: header, Data: data}, size, nil
}

// unblocked leaves out, and fails, messages behind a failed one of their key.
func (p *publication) unblocked(ready []outgoing) []outgoing {
	if len(p.failed) == 0 {
		return ready
	}
	kept := make([]outgoing, 0, len(ready))
	for _, o := range ready {
		if p.receipts[o.index].Err == nil && !p.heldBack(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

// heldBack fails o if an earlier message of its key has failed.
func (p *publication) heldBack(o outgoing) bool {
	first, ok := p.failed[o.key]
	if !ok || first > o.index {
		return false
	}
	p.receipts[o.index].Err = heldBack(p.receipts[first].Err)
	return true
}

// notSent fails what was left when the topic or the broker failed.
func (p *publication) notSent(ready []outgoing, down error) {
	for _, o := range ready {
		if r := p.receipts[o.index]; r.Err == nil && r.At.Offset == 0 {
			p.fail(o.index, &settle.PublishError{Scope: settle.ScopeOf(down), Err: fmt.Errorf("not sent: %v", down)})
		}
	}
}

func (p *publication) fail(i int, err error) {
	p.receipts[i] = settle.Receipt{Err: err}
	e := p.batch[i].Event
	if e == nil {
		return
	}
	if first, ok := p.failed[e.Key()]; !ok || i < first {
		p.failed[e.Key()] = i
	}
}

func (p *publication) failAll(from, to int, err error) {
	for i := from; i < to; i++ {
		if p.receipts[i].Err == nil {
			p.fail(i, err)
		}
	}
}

// heldBack is the error of a message that was not sent because an earlier one
// of its key failed. It has the same scope, but is not for good.
func heldBack(before error) error {
	return &settle.PublishError{Scope: settle.ScopeOf(before), Err: fmt.Errorf("not sent: an earlier event of its key failed: %v", before)}
}
