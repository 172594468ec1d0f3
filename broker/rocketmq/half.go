package rocketmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/txmsg"
)

// propertyTransaction carries the id of a half message's transaction. It is none of
// the event's headers.
const propertyTransaction = "__SETTLE_TRANSACTION"

// beatEvery is how often brokers are told that this process is one of its group.
const beatEvery = 5 * time.Second

// codeFailed is that of an end which the broker can't carry out, beside others.
const codeFailed = 1

// Halves is connections of one producer of half messages.
//
// It speaks the protocol itself, as all of this package does. The library's producer
// of transactions tells an end without waiting for the answer, gives the local
// transaction no context, ends its loop of checks with the first panic, binds checks
// to the first producer of a process, and is known to brokers only seconds after it
// has sent something. Here an end is confirmed or known to be lost, and a heartbeat
// with the group makes the process known at once, so that no half message is sent to
// warm up.
type Halves struct {
	b            *Broker
	group, owner string
	wire         *remoting.Client

	mu   sync.Mutex
	sink func(txmsg.Check)
}

var _ txmsg.Broker = (*Halves)(nil)

// Halves returns a producer of half messages of a group, which is to be of one
// service and one database: brokers ask any process of it. It is closed by Close.
func (b *Broker) Halves(group string) (*Halves, error) {
	if why := badGroup(group); why != "" {
		return nil, fmt.Errorf("open half messages: %s", why)
	}
	h := &Halves{b: b, group: group, owner: group + "@" + settle.NewID()}
	h.wire = remoting.New(remoting.Config{
		Dial: b.cfg.Dial, TLS: b.at.tls, AccessKey: b.at.accessKey, SecretKey: b.at.secret, Timeout: b.cfg.Timeout, DialTimeout: b.cfg.Timeout,
		Requests: h.asked,
	})
	return h, nil
}

// Close ends the connections; the Broker stays open.
func (h *Halves) Close() error {
	h.wire.Close()
	return nil
}

// handle is a txmsg.Handle of this package.
type handle struct {
	Broker string `json:"broker,omitempty"`
	// Addr is where the broker is that has asked; it names none.
	Addr  string `json:"addr,omitempty"`
	Group string `json:"group"`
	Topic string `json:"topic"`
	State int64  `json:"state"`
	Log   int64  `json:"log"`
	// Transaction is whose message it is, and Sent when it was, by this process's
	// clock in ms. A question of the broker's needs neither.
	Transaction string `json:"transaction,omitempty"`
	Sent        int64  `json:"sent,omitempty"`
}

// fresh is for how long after it was sent a half message is taken to stand where the
// broker has put it: one that has lost its disk is not back so soon.
const fresh = 5 * time.Second

func (a handle) fresh(now time.Time) bool {
	age := now.Sub(time.UnixMilli(a.Sent))
	return age >= 0 && age < fresh
}

func (a handle) text() txmsg.Handle {
	text, _ := json.Marshal(a) // texts and numbers always encode
	return txmsg.Handle(text)
}

// Half implements txmsg.Broker. The queue is that of the event's key where its node
// is there, and another where it is not: half messages keep no order.
func (h *Halves) Half(ctx context.Context, half txmsg.Half) (txmsg.Handle, error) {
	if err := h.b.begin(); err != nil {
		return "", err
	}
	defer h.b.calls.Done()
	out, err := h.b.encode(half.Message)
	if err != nil {
		return "", err
	}
	topic := topicOf(half.Message)
	r, err := h.b.topic(ctx, topic)
	if err != nil {
		return "", classify(err)
	}
	q := r.queues[r.reachable(half.Message.Event.Key(), h.b.nodes)]
	addr, is := r.master(q)
	if !is {
		h.b.routes.doubt()
		return "", &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not sent: the name servers know no master of topic %q", topic)}
	}
	properties := appendProperty([]byte(out.Properties), remoting.PropertyHalf, "true")
	properties = appendProperty(properties, remoting.PropertyProducers, h.group)
	out.Properties = string(appendProperty(properties, propertyTransaction, half.ID))
	// Crash here: the broker may have it, and asks; there is no record, so it is
	// dropped.
	stored, err := h.wire.Send(ctx, addr, remoting.Sending{Group: h.group, Topic: topic, Broker: q.broker, Queue: q.id, Messages: []remoting.Outgoing{out}, Half: true})
	h.b.nodes.lost(ctx, q.broker, err)
	if err != nil {
		known := classify(err)
		if known.Scope == settle.ScopeTopic {
			h.b.forget(topic)
		}
		return "", known
	}
	at, err := remoting.PlaceOf(stored)
	if err != nil {
		return "", &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	return handle{Broker: q.broker, Group: h.group, Topic: topic, State: at.State, Log: at.Log, Transaction: half.ID, Sent: time.Now().UnixMilli()}.text(), nil
}

// End implements txmsg.Broker.
func (h *Halves) End(ctx context.Context, to txmsg.Handle, v txmsg.Verdict) error {
	return h.end(ctx, to, v, false)
}

// Answer implements txmsg.Broker. A broker that is told nothing asks again.
func (h *Halves) Answer(ctx context.Context, c txmsg.Check, v txmsg.Verdict) error {
	if v == txmsg.Unknown {
		return nil
	}
	return h.end(ctx, c.Handle, v, true)
}

func (h *Halves) end(ctx context.Context, to txmsg.Handle, v txmsg.Verdict, asked bool) error {
	if err := h.b.begin(); err != nil {
		return err
	}
	defer h.b.calls.Done()
	var at handle
	if err := json.Unmarshal([]byte(to), &at); err != nil || at.Broker+at.Addr == "" {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("%q is no half message of RocketMQ", string(to)))}
	}
	addr, err := at.Addr, error(nil)
	if addr == "" {
		addr, err = h.master(ctx, at.Broker)
	}
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not sent: %w", err)}
	}
	if at.Transaction != "" && !at.fresh(time.Now()) {
		if err := h.isThere(ctx, addr, at); err != nil {
			return err
		}
	}
	how := remoting.EndRollback
	if v == txmsg.Commit {
		how = remoting.EndCommit
	}
	err = h.wire.EndTransaction(ctx, addr, remoting.End{
		Group: at.Group, Topic: at.Topic, Broker: at.Broker, At: remoting.HalfPlace{State: at.State, Log: at.Log}, How: how, Asked: asked,
	})
	var said *remoting.Refusal
	if errors.As(err, &said) && said.Code == codeFailed && isGone(said.Remark) {
		return fmt.Errorf("%w: %w", txmsg.ErrGone, err)
	}
	if err != nil {
		return classify(err)
	}
	return nil
}

// isThere returns ErrGone where another message stands in the place of the one meant.
// The broker compares groups and places only, and gives places anew when it has lost
// its disk: it would end the other one. What can't be seen is left to its answer.
func (h *Halves) isThere(ctx context.Context, addr string, at handle) error {
	m, err := h.wire.MessageAt(ctx, addr, at.Topic, at.Log)
	if err != nil {
		return nil
	}
	if of := decodeProperties(m.Properties)[propertyTransaction]; of != at.Transaction {
		return fmt.Errorf("%w: another message stands in its place", txmsg.ErrGone)
	}
	return nil
}

// isGone tells by a broker's words that it has nothing at a place any more, or
// something else.
func isGone(remark string) bool {
	return strings.Contains(remark, "prepared transaction message failed") || strings.Contains(remark, "is wrong")
}

// master returns where a broker of this name is written to.
func (h *Halves) master(ctx context.Context, name string) (string, error) {
	if addr := h.b.routes.masters()[name]; addr != "" {
		return addr, nil
	}
	masters, err := h.b.masters(ctx)
	if err != nil {
		return "", err
	}
	addr, is := masters[name]
	if !is {
		return "", fmt.Errorf("the name servers know no master of broker %q, which has the half message", name)
	}
	return addr, nil
}

// WarmUp implements txmsg.Broker: every master that is there knows the process when
// it returns.
func (h *Halves) WarmUp(ctx context.Context) error {
	if err := h.b.begin(); err != nil {
		return err
	}
	defer h.b.calls.Done()
	masters, err := h.b.masters(ctx)
	if err != nil {
		return classify(err)
	}
	var errs []error
	for _, addr := range masters {
		if err := h.wire.ProducerHeartbeat(ctx, addr, h.owner, h.group); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(masters) {
		return classify(errors.Join(errs...))
	}
	return nil
}

// Checks implements txmsg.Broker. As long as it runs, brokers are told that the
// process is one of the group; one that was restarted asks again when it was told.
func (h *Halves) Checks(ctx context.Context, sink func(txmsg.Check)) error {
	h.hear(sink)
	defer h.hear(nil)
	ctx, cancel := h.b.living(ctx)
	defer cancel()
	for pause(ctx, beatEvery) {
		if err := h.WarmUp(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("tell brokers of producer group %s: %w", h.group, err)
		}
	}
	if err := context.Cause(ctx); errors.Is(err, settle.ErrClosed) {
		return err
	}
	return nil
}

func (h *Halves) hear(sink func(txmsg.Check)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sink = sink
}

// asked takes in a broker's question. One that can't be read, or that nobody waits
// for, is left to the broker to ask again.
func (h *Halves) asked(addr string, cmd remoting.Command) {
	q, is, err := cmd.HalfCheck()
	if !is {
		return
	}
	if err != nil {
		h.b.cfg.Log.Warn("a broker's check of a half message can't be read; it asks again", "broker", addr, "error", err)
		return
	}
	properties := decodeProperties(q.Message.Properties)
	at := handle{
		Addr: addr, Group: properties[remoting.PropertyProducers], Topic: properties[remoting.PropertyRealTopic], State: q.At.State, Log: q.At.Log,
	}
	times, _ := strconv.Atoi(properties[remoting.PropertyChecks]) // none: the first
	c := txmsg.Check{
		ID: properties[propertyTransaction], Handle: at.text(), EventID: properties[settle.HeaderEventID], EventType: properties[settle.HeaderEventType],
		Key: keyOf(properties), Topic: at.Topic, Times: times,
	}
	h.mu.Lock()
	sink := h.sink
	h.mu.Unlock()
	if sink != nil {
		sink(c)
	}
}
