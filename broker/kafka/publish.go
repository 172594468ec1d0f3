package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
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
	with     producer
	// broken holds why the first record of a topic did not get through: others
	// are not tried.
	broken map[string]error

	mu sync.Mutex
	// failed holds, per key, the first message that failed: it holds back the
	// later ones.
	failed map[string]int
	// torn is the first error of a record that was handed over.
	torn error
}

func newPublication(b *Broker, ctx context.Context, batch []settle.Message) *publication {
	return &publication{b: b, ctx: ctx, batch: batch, receipts: make([]settle.Receipt, len(batch)), broken: map[string]error{}, failed: map[string]int{}}
}

// Publish implements settle.Publisher. All of the batch is handed to a client,
// which then sends what goes to one partition together and in order. What it
// does not send any more is unknown to the broker or held: it is ScopeBroker
// and will be published again. With Config.Fence a relay's batch is visible all
// at once, or not at all.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	p := newPublication(b, ctx, batch)
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
	if b.cfg.Fence && len(batch) > 0 && batch[0].Epoch > 0 {
		p.fenced()
	} else {
		p.plain()
	}
	return p.receipts
}

// plain publishes without a transaction.
func (p *publication) plain() {
	var err error
	if p.with, err = p.b.producer(p.ctx); err != nil {
		for i := range p.receipts {
			p.receipts[i].Err = classify(err)
		}
		return
	}
	p.declare()
	p.produce()
	p.settle()
	p.letGo()
	p.b.release(p.with)
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

// produce sends all of the batch, a part after the other.
func (p *publication) produce() {
	for i := 0; i < len(p.batch); {
		i = p.part(i)
	}
}

// part hands over what is not held back, from a message on and within bounds,
// sends it, waits for every answer and returns the next message. The first one
// of a topic goes alone.
func (p *publication) part(i int) (next int) {
	var answers sync.WaitGroup
	for n, size := 0, 0; i < len(p.batch) && n < handRecords && size < handBytes; i++ {
		r, err := p.record(i)
		if err != nil {
			p.fail(i, err)
			continue
		}
		if p.heldBack(i) {
			continue
		}
		if !p.with.known[r.Topic] {
			if n > 0 {
				break
			}
			p.first(i, r)
			continue
		}
		n, size = n+1, size+sizeOf(r)
		p.handOver(i, r, &answers)
	}
	p.flush(&answers)
	return i
}

// first sends the first record of a topic.
func (p *publication) first(i int, r *kgo.Record) {
	if err := p.broken[r.Topic]; err != nil {
		p.fail(i, err)
		return
	}
	p.alone(i, r)
	switch err := p.receipts[i].Err; {
	case err == nil:
		p.with.known[r.Topic] = true
	case settle.ScopeOf(err) != settle.ScopeRecord:
		p.broken[r.Topic] = err
	}
}

func (p *publication) handOver(i int, r *kgo.Record, answers *sync.WaitGroup) {
	answers.Add(1)
	p.with.cl.Produce(p.ctx, r, func(r *kgo.Record, err error) {
		p.answered(i, r, err)
		answers.Done()
	})
}

// flush sends what was handed over. The records have the context that ends the
// wait for their answers; a flush that ended before would leave them where they
// are.
func (p *publication) flush(answers *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		_ = p.with.cl.Flush(ctx) // it fails when it is ended here
	}()
	answers.Wait()
	cancel()
	<-flushed
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
		return nil, noTopic(name, why)
	}
	x := p.b.cfg.Wire.Encode(cloudevents.Kafka, m, nil)
	r := &kgo.Record{Topic: name, Key: []byte(m.Event.Key()), Value: x.Value, Headers: encodeHeaders(m, x.Headers)}
	if size := sizeOf(r) - recordCost; size > p.b.cfg.MaxRecordBytes {
		return nil, settle.TooLarge(m.Event, size, p.b.cfg.MaxRecordBytes)
	}
	return r, nil
}

func (p *publication) answered(i int, r *kgo.Record, err error) {
	if err != nil {
		p.mu.Lock()
		if p.torn == nil {
			p.torn = err
		}
		p.mu.Unlock()
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
// them anew.
func (p *publication) letGo() {
	forgotten, anew := map[string]bool{}, false
	for i, r := range p.receipts {
		if name := topicOf(p.batch[i]); r.Err != nil && settle.ScopeOf(r.Err) == settle.ScopeTopic && !forgotten[name] {
			forgotten[name] = true
			p.b.forget(name)
			anew = anew || isAny(r.Err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition)
		}
	}
	if anew {
		p.b.renew()
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
			p.again(i)
		}
		if err := p.receipts[i].Err; err != nil {
			p.fail(i, err)
		}
	}
}

// again sends what was refused, whose neighbours may be to blame.
func (p *publication) again(i int) {
	p.receipts[i] = settle.Receipt{}
	r, err := p.record(i)
	if err != nil {
		p.fail(i, err)
		return
	}
	p.alone(i, r)
}

func (p *publication) alone(i int, r *kgo.Record) {
	var answers sync.WaitGroup
	p.handOver(i, r, &answers)
	p.flush(&answers)
}
