package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// Memory is a broker in memory with one topic and what two groups of it have
// received and given up, for tests of what stands behind a bridge. Connections
// to it come from Connect. It keeps the contract, but for what its fields say.
type Memory struct {
	// AckEarly acknowledges letters before the sink has kept them. Forget gives
	// what comes again another identity. LoseReturns says that a return was taken
	// which was not. ReturnFails, when not nil, is asked before each return; its
	// error is returned after the message was taken if taken is true.
	// LoseAcks is how many acknowledgements are lost on their way, after the sink
	// has kept the letters.
	AckEarly, Forget, LoseReturns bool
	LoseAcks                      int
	ReturnFails                   func(r bridge.Return) (taken bool, err error)

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew at each change
	declared map[string]bool
	own      []message // to be received by the group
	others   []message // by the other group
	dead     []bridge.Letter
	numbers  int
}

type message struct {
	key     string
	raw     []byte
	headers map[string]string
}

// Connect returns a connection to m.
func (m *Memory) Connect() bridge.Broker { return &connection{m: m} }

type connection struct {
	m      *Memory
	mu     sync.Mutex
	closed bool
}

func (c *connection) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close implements bridge.Broker.
func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// Declare implements bridge.Broker.
func (c *connection) Declare(_ context.Context, l bridge.Ladder) (bridge.Group, error) {
	if l.Group == "" || l.Topic == "" {
		return bridge.Group{}, fmt.Errorf("declare ladder of group %q, topic %q: a name is missing", l.Group, l.Topic)
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.declared == nil {
		c.m.declared = map[string]bool{}
	}
	dead := l.Topic + "." + l.Group + ".dead"
	c.m.declared[dead] = true
	return bridge.Group{Name: l.Group, Dead: []string{dead}, Retry: l.Topic + "." + l.Group}, nil
}

// Source implements bridge.Broker.
func (c *connection) Source(g bridge.Group) (bridge.Source, error) {
	if g.Name == "" || len(g.Dead) == 0 || slices.Contains(g.Dead, "") {
		return nil, fmt.Errorf("read dead letters of group %q at %q: a name is missing", g.Name, g.Dead)
	}
	return &source{c: c, group: g}, nil
}

type source struct {
	c     *connection
	group bridge.Group
}

// Letters implements bridge.Source.
func (s *source) Letters(ctx context.Context, sink bridge.Sink) error {
	m := s.c.m
	for ctx.Err() == nil {
		if s.c.isClosed() {
			return settle.ErrClosed
		}
		letters, changed, err := m.lying(s.group)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if m.AckEarly {
			m.ack(letters)
		}
		if sink(ctx, letters) == nil {
			if !m.acksAreLost() {
				m.ack(letters)
			}
		} else if !pause(ctx, time.Millisecond) {
			return nil
		}
	}
	return nil
}

func (m *Memory) acksAreLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.LoseAcks--
	return m.LoseAcks >= 0
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// lying returns what a sink is to be given, and what tells that there is more.
func (m *Memory) lying(g bridge.Group) ([]bridge.Letter, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, place := range g.Dead {
		if !m.declared[place] {
			return nil, nil, fmt.Errorf("read dead letters: there is no %q", place)
		}
	}
	letters := slices.Clone(m.dead[:min(len(m.dead), bridge.MaxLetters)])
	for i := range letters {
		letters[i].Group = g.Name
		letters[i].At.Queue = g.Dead[0]
		if m.Forget {
			m.numbers++
			letters[i].Identity = strconv.Itoa(m.numbers)
		}
	}
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return letters, m.changed, nil
}

func (m *Memory) ack(letters []bridge.Letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = slices.DeleteFunc(m.dead, func(l bridge.Letter) bool {
		return slices.ContainsFunc(letters, func(o bridge.Letter) bool { return o.At.Offset == l.At.Offset })
	})
}

// Return implements bridge.Source.
func (s *source) Return(_ context.Context, r bridge.Return) error {
	if s.c.isClosed() {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: settle.ErrClosed}
	}
	m := s.c.m
	taken, err := true, error(nil)
	if m.ReturnFails != nil {
		taken, err = m.ReturnFails(r)
	}
	if !taken || m.LoseReturns {
		return err
	}
	headers := maps.Clone(r.Letter.Record.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[bridge.HeaderReturn] = r.ID
	msg := message{key: r.Letter.Record.Key, raw: r.Letter.Record.Raw, headers: headers}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = append(m.own, msg)
	if r.To == bridge.ToOrigin {
		m.others = append(m.others, msg)
	}
	return err
}

// Publish sends a message to both groups.
func (m *Memory) Publish(key string, value []byte, headers map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	msg := message{key, value, headers}
	m.own, m.others = append(m.own, msg), append(m.others, msg)
}

// errNothing is what GiveUp returns when there is nothing to give up.
var errNothing = errors.New("the group has nothing to receive")

// GiveUp lets the group give up the next message.
func (m *Memory) GiveUp(f Failure) error {
	r, ok := m.Receive()
	if !ok {
		return errNothing
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers++
	l := bridge.Letter{
		Identity: "dead-" + strconv.Itoa(m.numbers), At: bridge.Place{Offset: int64(m.numbers)}, From: bridge.Place{Queue: "orders"},
		Record: r, Class: settle.ClassHandler, Exception: f.Exception, Message: cut(f.Message, bridge.MaxCause), Trace: cut(f.Trace, bridge.MaxTrace),
		Attempts: 3, DiedAt: time.Now().UTC().Truncate(time.Microsecond), To: []bridge.Target{bridge.ToGroup, bridge.ToOrigin},
		ReturnID: r.Headers[bridge.HeaderReturn], Wrapping: []byte{0, 1},
	}
	if r.DecodeErr != nil {
		l.Class = settle.ClassDecode
	}
	m.dead = append(m.dead, l)
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	return nil
}

// cut shortens a text to at most limit bytes, at the end of a character.
func cut(s string, limit int) string {
	const more = "…"
	if s = strings.ToValidUTF8(s, "?"); len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}

// Receive lets the group receive the next message and be content with it.
func (m *Memory) Receive() (settle.Record, bool) { return m.receive(&m.own) }

// ReceiveOther does so for the other group.
func (m *Memory) ReceiveOther() (settle.Record, bool) { return m.receive(&m.others) }

func (m *Memory) receive(from *[]message) (settle.Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(*from) == 0 {
		return settle.Record{}, false
	}
	msg := (*from)[0]
	*from = (*from)[1:]
	r := settle.Record{Raw: msg.raw, Headers: msg.headers, Key: msg.key, RecordedAt: time.Now().UTC().Truncate(time.Microsecond), At: settle.Coordinates{Topic: "orders"}}
	r.Event, r.DecodeErr = settle.DecodeEnvelope(msg.raw, msg.headers)
	return r, true
}

// Lying returns how many dead letters are not acknowledged yet.
func (m *Memory) Lying() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.dead)
}
