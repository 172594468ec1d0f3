package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

// propertyOverhead is what a message takes beside body, headers and texts.
const propertyOverhead = 256

// maxShort is how long AMQP lets a short text be.
const maxShort = 255

// publication is one call of Publish.
type publication struct {
	b        *Broker
	ctx      context.Context
	batch    []settle.Message
	receipts []settle.Receipt
	s        *session
	strands  *strands
	// couriers carry the messages of one topic each.
	couriers map[string]*courier
	answers  chan answer
	// sent counts what waits for its answer; asked says which.
	sent  int
	asked []bool
}

// answer is what became of a message that was handed to a courier.
type answer struct {
	i   int
	err error
}

// Publish implements settle.Publisher. Of each key one message is unconfirmed
// at a time, and many keys are. While the broker is away, or takes nothing, it
// waits until ctx ends.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	p := publication{
		b: b, batch: batch, receipts: make([]settle.Receipt, len(batch)), strands: newStrands(len(batch), func(i int) string { return keyOf(batch[i]) }),
		couriers: map[string]*courier{}, answers: make(chan answer, len(batch)), asked: make([]bool, len(batch)),
	}
	if err := b.begin(); err != nil {
		p.failRest(err)
		return p.receipts
	}
	defer b.calls.Done()
	ctx, cancel := b.living(ctx)
	defer cancel()
	p.ctx = ctx
	s, err := b.publishing.await(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.failRest(p.stopped(err))
		return p.receipts
	}
	p.s = s
	p.run()
	for _, c := range p.couriers {
		close(c.parcels)
	}
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

// run hands out what may be sent until all is answered, or ctx ends.
func (p *publication) run() {
	for {
		closed := p.s.closed()
		for closed == nil && p.sent < p.b.cfg.Window && p.ctx.Err() == nil {
			i, ok := p.strands.next()
			if !ok {
				break
			}
			p.hand(i)
		}
		if p.sent == 0 && len(p.strands.ready) == 0 {
			return
		}
		select {
		case a := <-p.answers:
			p.sent--
			p.asked[a.i] = false
			p.answered(a.i, a.err)
		case <-closed:
		case <-p.s.gone:
			p.drain(nil)
			p.failRest(unknown(p.s.cause))
			return
		case <-p.ctx.Done():
			p.end()
			return
		}
	}
}

// end waits a while for what was sent before Close, and gives the rest up.
func (p *publication) end() {
	if errors.Is(context.Cause(p.ctx), settle.ErrClosed) {
		timer := time.NewTimer(p.b.cfg.Timeout)
		defer timer.Stop()
		p.drain(timer.C)
	}
	p.failRest(p.stopped(p.ctx.Err()))
}

// drain takes the answers that are there, and with patience those that come.
func (p *publication) drain(patience <-chan time.Time) {
	for p.sent > 0 {
		var a answer
		select {
		case a = <-p.answers:
		default:
			if patience == nil {
				return
			}
			select {
			case a = <-p.answers:
			case <-p.s.gone:
				patience = nil
				continue
			case <-patience:
				return
			}
		}
		p.sent--
		p.asked[a.i] = false
		p.answered(a.i, a.err)
	}
}

// stopped says why Publish has ended before its answers.
func (p *publication) stopped(err error) error {
	if errors.Is(context.Cause(p.ctx), settle.ErrClosed) {
		return settle.ErrClosed
	}
	if p.s != nil {
		if why, is := p.s.blockedBy(); is {
			return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("RabbitMQ takes nothing until its alarm ends (%s): %w", why, err)}
		}
	}
	return unknown(err)
}

// hand gives a message to the courier of its topic.
func (p *publication) hand(i int) {
	m := p.batch[i]
	if err := m.Validate(); err != nil {
		p.answered(i, err)
		return
	}
	topic := topicOf(m)
	body, err := p.b.encode(m)
	if err != nil {
		p.answered(i, err)
		return
	}
	c := p.couriers[topic]
	if c == nil {
		c = p.b.courier(p.s, topic, p.answers)
		p.couriers[topic] = c
	}
	p.sent++
	p.asked[i] = true
	c.parcels <- parcel{i: i, key: m.Event.Type, message: body} // holds a whole window
}

func (p *publication) answered(i int, err error) {
	key := keyOf(p.batch[i])
	if err == nil {
		p.receipts[i] = settle.Receipt{At: settle.Coordinates{Topic: topicOf(p.batch[i])}}
		p.strands.held(key)
		return
	}
	known := classify(err)
	if known.Scope == settle.ScopeTopic {
		p.b.forget(topicOf(p.batch[i]))
	}
	p.receipts[i] = settle.Receipt{Err: known}
	for _, j := range p.strands.failed(key) {
		p.receipts[j] = settle.Receipt{Err: &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("event %s of its key was not sent", p.batch[i].ID)}}
	}
}

// failRest fails what has no receipt.
func (p *publication) failRest(err error) {
	for i := range p.receipts {
		if p.receipts[i].Err == nil && p.receipts[i].At.Topic == "" {
			p.receipts[i].Err = err
		}
	}
}

// encode returns what is sent of m. The routing key is the type of the event,
// by which queues of others can be bound; the key is in a header.
func (b *Broker) encode(m settle.Message) (amqp.Publishing, error) {
	e := m.Event
	x := b.cfg.Wire.Encode(cloudevents.AMQP, m, nil)
	headers, size := encodePairs(x.Headers)
	body := x.Value
	at := e.AppendedAt
	if at.IsZero() {
		at = e.OccurredAt
	}
	size += len(body) + len(m.ID) + len(e.Type) + len(m.Source) + len(x.ContentType) + propertyOverhead
	if size > b.cfg.MaxRecordBytes {
		return amqp.Publishing{}, &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("it has %d bytes, and at most %d are sent", size, b.cfg.MaxRecordBytes))}
	}
	if len(m.ID) > maxShort || len(m.Source) > maxShort {
		return amqp.Publishing{}, tooLong(m)
	}
	return amqp.Publishing{
		Headers: headers, ContentType: x.ContentType, DeliveryMode: amqp.Persistent,
		MessageId: m.ID, Type: e.Type, AppId: m.Source, Timestamp: at, Body: body,
	}, nil
}

// tooLong says which text AMQP has no room for.
func tooLong(m settle.Message) error {
	name, text := "message id", m.ID
	if len(text) <= maxShort {
		name, text = "source", m.Source
	}
	return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("its %s has %d bytes, and AMQP has room for %d", name, len(text), maxShort))}
}
