package rocketmq_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/rocketmq"
)

// answering lets a broker answer to what it has stored with another code.
type answering struct{ code atomic.Int64 }

func (a *answering) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &answeringConn{Conn: conn, a: a}, nil
}

type answeringConn struct {
	net.Conn
	a     *answering
	ready []byte
}

func (c *answeringConn) Read(b []byte) (int, error) {
	if len(c.ready) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		rest := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c.Conn, rest); err != nil {
			return 0, err
		}
		c.ready = append(head, rest...)
		if code := c.a.code.Load(); code != 0 && bytes.Contains(rest, []byte(`"queueOffset"`)) {
			h := bytes.Replace(rest[4:], []byte(`"code":0`), []byte(`"code":`+strconv.FormatInt(code, 10)), 1)
			c.ready = binary.BigEndian.AppendUint32(nil, uint32(4+len(h)))
			c.ready = append(binary.BigEndian.AppendUint32(c.ready, uint32(len(h))), h...)
		}
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE and FLUSH_SLAVE_TIMEOUT say that a message
// is there, and not that it stays: the event is sent again, under the same id.
func TestWhatIsStoredAndNotOnDiskOrASlaveIsNoSuccess(t *testing.T) {
	r := newRig(t, serverForTest(t))
	var a answering
	cfg := r.config()
	cfg.Dial = a.dial
	b := closing(t, r.open(t, cfg))
	for _, code := range []int64{10, 11, 12} {
		a.code.Store(code)
		batch := events(r.topic, "c"+strconv.FormatInt(code, 10)+"-", 8, 1)
		batch = append(batch, event(r.topic, batch[0].Event.AggregateID, 2))
		for i, got := range b.Publish(t.Context(), batch) {
			if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker || got.At != (settle.Coordinates{}) {
				t.Errorf("code %d, event %s: %v at %v", code, batch[i].ID, got.Err, got.At)
			}
		}
		a.code.Store(0)
		published(t, b, batch)
	}
	for id, n := range inOrder(t, r.log(t)) {
		if n != 2 {
			t.Errorf("event %s is there %d times", id, n)
		}
	}
}

// A broker says of a request of several that one of them is too large, and not which.
func TestAnEventThatTheBrokerFindsTooLargeIsRefusedForGoodAndItsNeighboursGo(t *testing.T) {
	r := newRig(t, serverForTest(t))
	cfg := r.config()
	cfg.MaxRecordBytes = 16 << 20
	b := closing(t, r.open(t, cfg))
	batch := events(r.topic, "k", 20, 1)
	large := event(r.topic, "k3", 2)
	large.Event.Payload = nil
	large.Event.Envelope = []byte(`{"eventId":"k3-2","eventType":"x","aggregateId":"k3","payload":"` + strings.Repeat("x", 900<<10) + `"}`)
	headers := event(r.topic, "k4", 2)
	headers.Event.Headers = map[string]string{"quotes": strings.Repeat(`"`, 16<<10-40), "DELAY": strings.Repeat(`\`, 10)}
	packed := event(r.topic, "k5", 2)
	packed.Event.Headers = map[string]string{"DELAY": strings.Repeat(`"`, 16<<10-20)}
	batch = append(batch, large, headers, packed, event(r.topic, "k5", 3))
	got := b.Publish(t.Context(), batch)
	for i, m := range batch {
		err := got[i].Err
		switch {
		case m.ID == packed.ID && (settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err)):
			t.Errorf("headers that RocketMQ has no room for: %v", err)
		case m.ID == "k5-3" && (err == nil || settle.IsPermanent(err)):
			t.Errorf("what stands behind it: %v", err)
		case m.ID != packed.ID && m.ID != "k5-3" && err != nil:
			t.Errorf("event %s: %v", m.ID, err)
		}
	}
}

func TestATopicThatIsNotDeclaredIsNotMade(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, rocketmq.Config{}))
	for _, got := range b.Publish(t.Context(), events(r.topic, "k", 3, 1)) {
		if settle.ScopeOf(got.Err) != settle.ScopeTopic || !strings.Contains(got.Err.Error(), r.topic) {
			t.Errorf("got %v, want a topic error", got.Err)
		}
	}
	if _, err := r.wire.Route(t.Context(), r.names[0], r.topic); err == nil {
		t.Error("the topic was made")
	}
	published(t, closing(t, r.open(t, rocketmq.Config{Declare: true, Queues: queues})), events(r.topic, "k", 3, 1))
	published(t, b, events(r.topic, "k", 3, 2)) // it is looked for again
	bad := event("order.events", "k9", 1)
	good := event(r.topic, "k8", 1)
	got := b.Publish(t.Context(), []settle.Message{bad, good})
	if settle.ScopeOf(got[0].Err) != settle.ScopeRecord || !settle.IsPermanent(got[0].Err) || !strings.Contains(got[0].Err.Error(), "no dots") || got[1].Err != nil {
		t.Errorf("a topic that can't be one: %v; its neighbour: %v", got[0].Err, got[1].Err)
	}
}

// As a CloudEvent in binary form an event is its payload, and RocketMQ takes no message
// without a body by itself.
func TestAnEventWithoutABodyArrives(t *testing.T) {
	r := newRig(t, serverForTest(t))
	cfg := r.config()
	cfg.Wire = cloudevents.Binary
	b := closing(t, r.open(t, cfg))
	empty := event(r.topic, "k", 1)
	empty.Event.ContentType, empty.Event.Payload = "text/plain", nil
	published(t, b, []settle.Message{empty})
	published(t, b, []settle.Message{event(r.topic, "k", 2)})
	m := deliverTo(t, b, "readers", r.topic)
	m.await(t, 2)
	inOrder(t, m.records)
	if e := m.records[0].Event; e == nil || e.ID != empty.ID || len(e.Payload) != 0 {
		t.Errorf("it has come as %+v, %v", e, m.records[0].DecodeErr)
	}
}
