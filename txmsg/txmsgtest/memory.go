package txmsgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

// Delivery is a message that consumers receive.
type Delivery struct {
	// ID is that of the transaction.
	ID      string
	Message settle.Message
}

// Memory is a broker with half messages in memory, for one group of producers. It
// asks when it is told to. The zero value is ready to use.
type Memory struct {
	// MaxPayload is what a message may have in bytes. Defaults to no bound.
	MaxPayload int

	mu      sync.Mutex
	halves  map[txmsg.Handle]*half
	order   []txmsg.Handle
	log     []Delivery
	members []*Member
	turn    int
	lost    int // ends that are yet to be lost
	silent  int // ends that are yet to be done without an answer
	refused error
}

type half struct {
	sent  txmsg.Half
	ended bool
	gone  bool
	asked int
}

// Connect returns a connection as another process has it. The broker asks it once
// it has warmed up or sent.
func (m *Memory) Connect() *Member { return &Member{m: m} }

// Log returns what consumers have received, in order.
func (m *Memory) Log() []Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// Ask asks for each half message that has not ended, each of one member of the
// group, and returns how many it asked for. Early and late are when a test calls
// it.
func (m *Memory) Ask() int {
	m.mu.Lock()
	type question struct {
		to *Member
		c  txmsg.Check
	}
	var all []question
	for _, handle := range m.order {
		h := m.halves[handle]
		if h.ended || h.gone {
			continue
		}
		if to := m.next(); to != nil {
			e := h.sent.Message.Event
			all = append(all, question{to, txmsg.Check{
				ID: h.sent.ID, Handle: handle, EventID: e.ID, EventType: e.Type, Key: e.AggregateID, Topic: e.Topic, Times: h.asked,
			}})
		}
		h.asked++
	}
	m.mu.Unlock()
	for _, q := range all {
		q.to.hear(q.c)
	}
	return len(all)
}

// next returns the member whose turn it is to be asked; nil if nobody listens.
func (m *Memory) next() *Member {
	for range m.members {
		m.turn++
		if to := m.members[m.turn%len(m.members)]; to.listens() {
			return to
		}
	}
	return nil
}

// GiveUp drops all half messages that have not ended, as a broker does that has
// asked often enough.
func (m *Memory) GiveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.halves {
		h.gone = h.gone || !h.ended
	}
}

// LoseEnds loses the next n ends on their way; their senders get an error.
func (m *Memory) LoseEnds(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = n
}

// LoseAnswers does the next n ends and loses the answers.
func (m *Memory) LoseAnswers(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = n
}

// Refuse lets every half message and end fail with err, until it is nil.
func (m *Memory) Refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = err
}

// errLost is what a sender sees of an end that was lost.
var errLost = &settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("no answer")}

func (m *Memory) keep(h txmsg.Half) (txmsg.Handle, error) {
	if err := h.Message.Validate(); err != nil {
		return "", err
	}
	if n := len(h.Message.Event.Payload); m.MaxPayload > 0 && n > m.MaxPayload {
		return "", &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("message has %d bytes; the limit is %d", n, m.MaxPayload))}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused != nil {
		return "", m.refused
	}
	event := *h.Message.Event
	event.Payload, event.Headers = slices.Clone(event.Payload), maps.Clone(event.Headers)
	h.Message.Event = &event
	if m.halves == nil {
		m.halves = map[txmsg.Handle]*half{}
	}
	handle := txmsg.Handle(fmt.Sprintf("memory:%d", len(m.order)))
	m.halves[handle], m.order = &half{sent: h}, append(m.order, handle)
	return handle, nil
}

// end delivers or drops. A commit that is told twice delivers twice.
func (m *Memory) end(handle txmsg.Handle, v txmsg.Verdict) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused != nil {
		return m.refused
	}
	if m.lost > 0 {
		m.lost--
		return errLost
	}
	h := m.halves[handle]
	if h == nil || h.gone {
		return txmsg.ErrGone
	}
	if v == txmsg.Unknown {
		return nil
	}
	h.ended = true
	if v == txmsg.Commit {
		m.log = append(m.log, Delivery{h.sent.ID, h.sent.Message})
	}
	if m.silent > 0 {
		m.silent--
		return errLost
	}
	return nil
}

// Member is a connection to a Memory.
type Member struct {
	m *Memory

	mu    sync.Mutex
	known bool
	sink  func(txmsg.Check)
}

var _ txmsg.Broker = (*Member)(nil)

// Half implements txmsg.Broker.
func (b *Member) Half(ctx context.Context, h txmsg.Half) (txmsg.Handle, error) {
	if err := ctx.Err(); err != nil {
		return "", &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	handle, err := b.m.keep(h)
	if err == nil {
		b.join()
	}
	return handle, err
}

// End implements txmsg.Broker.
func (b *Member) End(ctx context.Context, h txmsg.Handle, v txmsg.Verdict) error {
	if err := ctx.Err(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	return b.m.end(h, v)
}

// Answer implements txmsg.Broker.
func (b *Member) Answer(ctx context.Context, c txmsg.Check, v txmsg.Verdict) error {
	return b.End(ctx, c.Handle, v)
}

// WarmUp implements txmsg.Broker.
func (b *Member) WarmUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	b.m.mu.Lock()
	refused := b.m.refused
	b.m.mu.Unlock()
	if refused == nil {
		b.join()
	}
	return refused
}

// Checks implements txmsg.Broker.
func (b *Member) Checks(ctx context.Context, sink func(txmsg.Check)) error {
	b.mu.Lock()
	b.sink = sink
	b.mu.Unlock()
	<-ctx.Done()
	b.mu.Lock()
	b.sink = nil
	b.mu.Unlock()
	return nil
}

// join makes the broker know b.
func (b *Member) join() {
	b.mu.Lock()
	known := b.known
	b.known = true
	b.mu.Unlock()
	if !known {
		b.m.mu.Lock()
		b.m.members = append(b.m.members, b)
		b.m.mu.Unlock()
	}
}

func (b *Member) listens() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sink != nil
}

func (b *Member) hear(c txmsg.Check) {
	b.mu.Lock()
	sink := b.sink
	b.mu.Unlock()
	if sink != nil {
		sink(c)
	}
}
