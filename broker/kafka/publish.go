package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// recordOverhead is what a batch of one record takes beside value, key and
// headers, at most.
const recordOverhead = 4 << 10

// publication is one call of Publish.
type publication struct {
	b        *Broker
	ctx      context.Context
	batch    []settle.Message
	receipts []settle.Receipt

	mu sync.Mutex
	// failed holds, per key, the first message that failed: it holds back the
	// later ones.
	failed map[string]int
}

// Publish implements settle.Publisher. All of the batch is handed to the
// client at once, which sends what goes to one partition together and in order.
// What the client refuses to send any more is unknown to the broker or held:
// it is ScopeBroker and will be published again.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	p := publication{b: b, ctx: ctx, batch: batch, receipts: make([]settle.Receipt, len(batch)), failed: map[string]int{}}
	if err := b.begin(); err != nil {
		for i := range p.receipts {
			p.receipts[i].Err = err
		}
		return p.receipts
	}
	defer b.calls.Done()
	p.declare()
	p.produce()
	p.alone()
	return p.receipts
}

func topicOf(m settle.Message) string {
	if m.Event == nil || m.Event.Topic == "" {
		return settle.DefaultTopic
	}
	return m.Event.Topic
}

func keyOf(m settle.Message) string {
	if m.Event == nil {
		return ""
	}
	return m.Event.Key()
}

// declare makes the topics that have to be made, and fails the messages of
// those that can't.
func (p *publication) declare() {
	for i := range p.batch {
		name := topicOf(p.batch[i])
		if i > 0 && name == topicOf(p.batch[i-1]) && p.receipts[i-1].Err == nil {
			continue
		}
		if err := p.b.ready(p.ctx, name); err != nil {
			p.fail(i, err)
		}
	}
}

// produce hands over what is not held back and waits for every answer.
func (p *publication) produce() {
	var answers sync.WaitGroup
	for i := range p.batch {
		r, err := p.record(i)
		if err != nil {
			p.fail(i, err)
			continue
		}
		if p.heldBack(i) {
			continue
		}
		answers.Add(1)
		p.b.cl.Produce(p.ctx, r, func(r *kgo.Record, err error) {
			p.answered(i, r, err)
			answers.Done()
		})
	}
	answers.Wait()
}

func (p *publication) record(i int) (*kgo.Record, error) {
	if p.receipts[i].Err != nil {
		return nil, p.receipts[i].Err
	}
	m := p.batch[i]
	if err := m.Validate(); err != nil {
		return nil, err
	}
	name := topicOf(m)
	if why := badTopic(name); why != "" {
		return nil, &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New(why)}
	}
	r := &kgo.Record{Topic: name, Key: []byte(m.Event.Key()), Value: settle.AppendEnvelope(nil, m.Event), Headers: encodeHeaders(m)}
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > p.b.cfg.MaxRecordBytes {
		return nil, &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("its record has %d bytes, and at most %d are sent", size, p.b.cfg.MaxRecordBytes))}
	}
	return r, nil
}

func (p *publication) answered(i int, r *kgo.Record, err error) {
	if err != nil {
		p.fail(i, err)
		return
	}
	p.receipts[i] = settle.Receipt{At: settle.Coordinates{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset}}
}

func (p *publication) fail(i int, err error) {
	known := classify(err)
	if known.Scope == settle.ScopeTopic {
		p.b.forget(topicOf(p.batch[i]))
	}
	p.receipts[i] = settle.Receipt{Err: known}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOf(p.batch[i])
	if first, is := p.failed[key]; !is || i < first {
		p.failed[key] = i
	}
}

// heldBack fails a message behind a failed one of its key.
func (p *publication) heldBack(i int) bool {
	p.mu.Lock()
	first, is := p.failed[keyOf(p.batch[i])]
	p.mu.Unlock()
	if !is || first >= i {
		return false
	}
	p.receipts[i] = settle.Receipt{Err: &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("event %s of its key was not sent", p.batch[first].ID)}}
	return true
}

// alone sends what the broker found too large one by one: it speaks of a batch,
// and of a partition's records behind it, and not one of them is held.
func (p *publication) alone() {
	var again []int
	for i := range p.receipts {
		if err := p.receipts[i].Err; isAny(err, kerr.MessageTooLarge, kerr.RecordListTooLarge) {
			again = append(again, i)
		}
	}
	for _, i := range again {
		p.mu.Lock()
		if p.failed[keyOf(p.batch[i])] == i {
			delete(p.failed, keyOf(p.batch[i]))
		}
		p.mu.Unlock()
		p.receipts[i] = settle.Receipt{}
		if p.heldBack(i) {
			continue
		}
		r, err := p.record(i)
		if err == nil {
			r, err = p.b.cl.ProduceSync(p.ctx, r).First()
		}
		p.answered(i, r, err)
	}
}
