package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// way is a message on its way back.
type way struct {
	exchange, key string
	message       amqp.Publishing
}

// Return implements bridge.Source. While the broker is away, or takes nothing,
// it waits until ctx ends.
func (s *letterSource) Return(ctx context.Context, r bridge.Return) error {
	w, err := s.way(r)
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("return dead letter %s: %w", r.Letter.Identity, err))}
	}
	if err := s.b.begin(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	defer s.b.calls.Done()
	ctx, cancel := s.b.living(ctx)
	defer cancel()
	on, err := s.b.publishing.await(ctx)
	if err == nil {
		err = taking(ctx, on)
	}
	if err != nil {
		return unknown(err)
	}
	answer := make(chan error, 1)
	s.b.owned.Go(func() { answer <- s.b.send(on, w) }) // a write can hang
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

// taking waits until the broker takes messages.
func taking(ctx context.Context, s *session) error {
	blocked := s.closed()
	if blocked == nil {
		return nil
	}
	select {
	case <-blocked:
		return nil
	case <-ctx.Done():
		why, _ := s.blockedBy()
		return fmt.Errorf("RabbitMQ takes nothing until its alarm ends (%s): %w", why, ctx.Err())
	}
}

// send publishes one message and waits for its confirm, or the connection's end.
func (b *Broker) send(s *session, w way) error {
	l, err := b.take(s)
	if err != nil {
		return classify(err)
	}
	confirm, err := l.ch.PublishWithDeferredConfirm(w.exchange, w.key, true, false, w.message)
	if err == nil {
		<-confirm.Done()
	}
	if err != nil || !confirm.Acked() && l.ch.IsClosed() {
		return b.refused(l.why())
	}
	// Crash here: the message is there, and is sent again under the same id.
	defer b.put(l)
	if !confirm.Acked() {
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New("RabbitMQ has refused it (basic.nack): a queue that it goes to is full or does not work")}
	}
	select {
	case back := <-l.returns: // ahead of its confirm
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("RabbitMQ has sent it back (%d %s): %s", back.ReplyCode, back.ReplyText, w.missing())}
	default:
		return nil
	}
}

// refused says what the end of a channel with one message in flight means.
func (b *Broker) refused(why error) error {
	if isTooLarge(why) {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(why)}
	}
	if code(why) == 0 {
		return unknown(fmt.Errorf("the outcome is unknown: %w", why))
	}
	return classify(why)
}

func (w way) missing() string {
	if w.exchange == "" {
		return fmt.Sprintf("there is no queue %q", w.key)
	}
	return fmt.Sprintf("no queue is bound to exchange %q for the routing key %q, and nobody would get it", w.exchange, w.key)
}

// way finds where a letter goes, and makes it the message that it was.
func (s *letterSource) way(r bridge.Return) (way, error) {
	if !slices.Contains(s.targets(r.Letter), r.To) {
		return way{}, fmt.Errorf("it can't go to %q", r.To)
	}
	w := way{exchange: r.Letter.From.Exchange, key: r.Letter.From.RoutingKey}
	if r.To == bridge.ToGroup {
		w.exchange, w.key = "", s.own(r.Letter.From.Queue)
	}
	var err error
	w.message, err = unwrap(r)
	if err != nil {
		return way{}, err
	}
	if r.To == bridge.ToGroup {
		delete(w.message.Headers, "CC") // they name queues that get copies
		delete(w.message.Headers, "BCC")
		if from := r.Letter.From; from.Exchange != "" || from.RoutingKey != "" {
			w.message.Headers[deadletter.HeaderOrigin] = deadletter.Origin{Exchange: from.Exchange, RoutingKey: from.RoutingKey}.String()
		}
	}
	if size := headBytes(w.message); size > frameBytes-frameRoom {
		return way{}, fmt.Errorf("its headers have %d bytes, and RabbitMQ has room for %d", size, frameBytes-frameRoom)
	}
	return w, nil
}

// own is the queue of the group alone. Of a group of Settle's own it is the
// partition that the message died in.
func (s *letterSource) own(died string) string {
	if n, is := strings.CutPrefix(died, s.g.Retry+"."); is {
		if _, err := strconv.ParseUint(n, 10, 31); err == nil {
			return died
		}
	}
	return s.g.Retry
}

// unwrap makes the message of a letter, without what its death has added.
func unwrap(r bridge.Return) (amqp.Publishing, error) {
	var p wrapping
	if err := json.Unmarshal(r.Letter.Wrapping, &p); err != nil {
		return amqp.Publishing{}, fmt.Errorf("unwrap it: %w", err)
	}
	headers := amqp.Table{}
	for k, v := range r.Letter.Record.Headers {
		if !isOfDeath(k) {
			headers[k] = v
		}
	}
	typed, err := unpackTable(p.Headers)
	if err != nil {
		return amqp.Publishing{}, fmt.Errorf("unwrap it: %w", err)
	}
	for k, v := range typed {
		headers[k] = v
	}
	headers[bridge.HeaderReturn] = r.ID
	m := amqp.Publishing{
		Headers: headers, ContentType: string(p.ContentType), ContentEncoding: string(p.ContentEncoding), DeliveryMode: amqp.Persistent, Priority: p.Priority,
		CorrelationId: string(p.CorrelationID), ReplyTo: string(p.ReplyTo), Expiration: string(p.Expiration), MessageId: string(p.MessageID),
		Type: string(p.Type), AppId: string(p.AppID), Body: r.Letter.Record.Raw,
	}
	if p.Timestamp != 0 {
		m.Timestamp = time.Unix(p.Timestamp, 0)
	}
	return m, nil
}

// frameRoom is what a frame holds beside headers: properties, which have a few
// kilobytes at most, and its own marks. A larger one would end the connection.
const frameRoom = 4 << 10

// headBytes is what headers take in a frame, about.
func headBytes(m amqp.Publishing) int { return tableBytes(m.Headers) }

func tableBytes(t amqp.Table) int {
	size := 4
	for k, v := range t {
		size += 1 + len(k) + fieldBytes(v)
	}
	return size
}

func fieldBytes(v any) int {
	switch v := v.(type) {
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case amqp.Table:
		return 1 + tableBytes(v)
	case []any:
		size := 5
		for _, e := range v {
			size += fieldBytes(e)
		}
		return size
	}
	return 9
}
