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
	var cancel context.CancelFunc
	p.ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.end, cancel)()
	p.declare()
	p.produce()
	p.settle()
	p.letGo()
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
	if !p.b.cfg.Declare {
		return
	}
	said := map[string]error{}
	for i := range p.batch {
		name := topicOf(p.batch[i])
		err, known := said[name]
		if !known {
			err = p.b.ready(p.ctx, name)
			said[name] = err
		}
		if err != nil {
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
	if size := sizeOf(r) - recordCost; size > p.b.cfg.MaxRecordBytes {
		return nil, settle.TooLarge(m.Event, size, p.b.cfg.MaxRecordBytes)
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
	p.receipts[i] = settle.Receipt{Err: classify(err)}
	if p.batch[i].Event == nil {
		return
	}
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

// letGo forgets the topics that can't take anything: the next use looks for
// them anew. The client never writes to a topic that was made anew under its
// name by itself.
func (p *publication) letGo() {
	forgotten := map[string]bool{}
	for i, r := range p.receipts {
		if name := topicOf(p.batch[i]); r.Err != nil && settle.ScopeOf(r.Err) == settle.ScopeTopic && !forgotten[name] {
			forgotten[name] = true
			p.b.forget(name)
			if isAny(r.Err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition) {
				p.b.cl.PurgeTopicsFromProducing(name)
			}
		}
	}
}

// settle goes through the answers in the order of the batch. What was refused
// along with others is sent by itself, and what stands behind a message of its
// key that failed has failed, too.
func (p *publication) settle() {
	if len(p.failed) == 0 {
		return
	}
	clear(p.failed)
	for i := range p.batch {
		if p.heldBack(i) {
			continue
		}
		if isAny(p.receipts[i].Err, refusals...) {
			p.alone(i)
		}
		if err := p.receipts[i].Err; err != nil {
			p.fail(i, err)
		}
	}
}

// alone sends what was refused, whose neighbours may be to blame.
func (p *publication) alone(i int) {
	p.receipts[i] = settle.Receipt{}
	r, err := p.record(i)
	if err == nil {
		r, err = p.b.cl.ProduceSync(p.ctx, r).First()
	}
	p.answered(i, r, err)
}
