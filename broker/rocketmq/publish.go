package rocketmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

const (
	// maxBatch and maxBatchBytes bound a request; brokers take 4 MiB unless told
	// otherwise.
	maxBatch      = 128
	maxBatchBytes = 1 << 20
	// maxProperties is what a message's properties may take: 32 KiB, less what the
	// broker adds.
	maxProperties = 32<<10 - 1 - 512
)

// publication is one call of Publish.
type publication struct {
	b *Broker
	// ctx is the caller's; living ends also with Close, and nothing more is sent.
	ctx, living context.Context
	batch       []settle.Message
	receipts    []settle.Receipt
	out         []remoting.Outgoing
	topics      map[string]*topicOfCall
	lines       *lines
	to          []destination
	// alone counts, per line, messages that are sent one by one, because together
	// they were refused.
	alone   []int
	answers chan answer
	// flying counts requests.
	flying int
}

// topicOfCall is what a call of Publish knows of a topic.
type topicOfCall struct {
	route *route
	err   error
	// lines are those to its partitions.
	lines map[int]int
}

// destination is a queue to which a line leads.
type destination struct {
	route     *route
	partition int
}

// answer is what became of a request.
type answer struct {
	line   int
	batch  []int
	stored remoting.Stored
	err    error
}

// Publish implements settle.Publisher. To each queue one request is in flight at a
// time, with as many messages as there are; many queues are at work. What is for a
// node that is down fails at once, and the rest is not held up.
func (b *Broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	p := publication{
		b: b, ctx: ctx, batch: batch, receipts: make([]settle.Receipt, len(batch)), out: make([]remoting.Outgoing, len(batch)),
		topics: map[string]*topicOfCall{},
	}
	if err := b.begin(); err != nil {
		for i := range p.receipts {
			p.receipts[i].Err = err
		}
		return p.receipts
	}
	defer b.calls.Done()
	living, cancel := b.living(ctx)
	defer cancel()
	p.living = living
	p.address()
	p.run()
	return p.receipts
}

func topicOf(m settle.Message) string {
	if m.Event == nil || m.Event.Topic == "" {
		return settle.DefaultTopic
	}
	return m.Event.Topic
}

// address finds the line of each message, or fails it.
func (p *publication) address() {
	of := make([]int, len(p.batch))
	for i, m := range p.batch {
		of[i] = none
		topic := p.topic(m)
		out, err := p.b.encode(m)
		if err == nil {
			err = topic.err
		}
		if err != nil {
			p.receipts[i].Err = err
			continue
		}
		p.out[i] = out
		of[i] = p.line(topic, m.Event.Key())
	}
	p.alone = make([]int, len(p.to))
	p.answers = make(chan answer, len(p.to))
	p.lines = newLines(len(p.to), of, func(i int) string {
		if p.batch[i].Event == nil {
			return ""
		}
		return p.batch[i].Event.Key()
	})
}

func (p *publication) topic(m settle.Message) *topicOfCall {
	name := topicOf(m)
	t := p.topics[name]
	if t == nil {
		t = &topicOfCall{lines: map[int]int{}}
		t.route, t.err = p.b.topic(p.living, name)
		p.topics[name] = t
	}
	return t
}

func (p *publication) line(t *topicOfCall, key string) int {
	n := t.route.partitionOf(key)
	if p.b.cfg.Any {
		n = t.route.reachable(key, p.b.nodes)
	}
	line, is := t.lines[n]
	if !is {
		line = len(p.to)
		t.lines[n] = line
		p.to = append(p.to, destination{route: t.route, partition: n})
	}
	return line
}

// encode returns what is sent of m.
func (b *Broker) encode(m settle.Message) (remoting.Outgoing, error) {
	if err := m.Validate(); err != nil {
		return remoting.Outgoing{}, err
	}
	x := b.cfg.Wire.Encode(cloudevents.RocketMQ, m, nil)
	properties := appendProperties(make([]byte, 0, 512), m, x.Headers)
	if len(properties) > maxProperties {
		return remoting.Outgoing{}, &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("its headers take %d bytes, and RocketMQ has room for %d", len(properties), maxProperties))}
	}
	body := x.Value
	if len(body) > b.cfg.MaxRecordBytes {
		return remoting.Outgoing{}, settle.TooLarge(m.Event, len(body), b.cfg.MaxRecordBytes)
	}
	return remoting.Outgoing{Properties: string(properties), Body: body}, nil
}

// run hands out what may be sent until all is answered, or the call has to end.
func (p *publication) run() {
	for {
		// What fails in one line lets those behind it in others fail.
		for more := p.living.Err() == nil; more; {
			more = false
			for line := range p.to {
				more = p.hand(line) || more
			}
		}
		if p.flying == 0 {
			break
		}
		a := <-p.answers
		p.flying--
		p.answered(a)
	}
	for line := range p.to {
		p.giveUp(line, p.stopped())
	}
}

// stopped says why a call has ended before all was sent.
func (p *publication) stopped() error {
	if errors.Is(context.Cause(p.living), settle.ErrClosed) {
		return settle.ErrClosed
	}
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not sent: %w", p.living.Err())}
}

// hand sends what a line may send, and reports whether anything came of it.
func (p *publication) hand(line int) bool {
	n, size := 0, 0
	batch, behind := p.lines.next(line, func(i int) bool {
		n++
		size += p.out[i].Size()
		return n == 1 || p.alone[line] == 0 && n <= maxBatch && size <= maxBatchBytes
	})
	for _, i := range behind {
		p.receipts[i].Err = p.heldBack(i)
	}
	if len(batch) == 0 {
		return len(behind) > 0
	}
	p.alone[line] = max(p.alone[line]-1, 0)
	p.flying++
	go func() {
		stored, err := p.send(p.to[line], batch)
		p.answers <- answer{line: line, batch: batch, stored: stored, err: err} // holds one of each line
	}()
	return true
}

// send asks the master of a queue to store messages.
func (p *publication) send(to destination, batch []int) (remoting.Stored, error) {
	q := to.route.queues[to.partition]
	addr, is := to.route.master(q)
	why := p.b.nodes.why(q.broker)
	if !is {
		p.b.nodes.lost(p.ctx, q.broker, errNoMaster)
		why = fmt.Errorf("broker %q: %w", q.broker, errNoMaster)
	}
	if why != nil {
		return remoting.Stored{}, &remoting.NotSentError{Err: why}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.b.cfg.Timeout)
	defer cancel()
	s := remoting.Sending{Group: p.b.cfg.Name, Topic: to.route.topic, Broker: q.broker, Queue: q.id, Messages: make([]remoting.Outgoing, len(batch))}
	for k, i := range batch {
		s.Messages[k] = p.out[i]
	}
	// Crash here: whether they are stored is not known; they are sent again under
	// the same ids.
	stored, err := p.b.wire.Send(ctx, addr, s)
	p.b.nodes.lost(p.ctx, q.broker, err)
	return stored, err
}

func (p *publication) answered(a answer) {
	p.lines.free(a.line)
	to := p.to[a.line]
	if a.err == nil {
		for k, i := range a.batch {
			p.receipts[i].At = settle.Coordinates{Topic: to.route.topic, Partition: to.partition, Offset: a.stored.Offset + int64(k)}
			p.lines.answered(i, true)
		}
		return
	}
	known := classify(a.err)
	if known.Scope == settle.ScopeRecord && len(a.batch) > 1 {
		// None of them is stored, and the answer does not say which is refused.
		p.alone[a.line] = len(a.batch)
		p.lines.again(a.line, a.batch)
		return
	}
	for _, i := range a.batch {
		p.receipts[i].Err = known
		p.lines.answered(i, false)
	}
	notSent := &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("not sent: %w", known.Err)}
	switch known.Scope {
	case settle.ScopeBroker:
		p.giveUp(a.line, notSent)
	case settle.ScopeTopic:
		p.b.forget(to.route.topic)
		for _, line := range p.topics[to.route.topic].lines {
			p.giveUp(line, notSent)
		}
	}
}

// giveUp fails what waits in a line.
func (p *publication) giveUp(line int, err error) {
	for _, i := range p.lines.rest(line) {
		p.receipts[i].Err = err
	}
}

// heldBack is the error of a message that was not sent because an earlier one of its
// key failed. It has the same scope, but is not for good.
func (p *publication) heldBack(i int) error {
	before := p.receipts[p.lines.before[i]].Err
	return &settle.PublishError{Scope: settle.ScopeOf(before), Err: fmt.Errorf("not sent: an earlier event of its key failed: %v", before)}
}

// forget makes the next use ask for a topic again, and declare it.
func (b *Broker) forget(topic string) {
	b.mu.Lock()
	delete(b.declared, topic)
	b.mu.Unlock()
	b.routes.forget(topic)
}
