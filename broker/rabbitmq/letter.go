package rabbitmq

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// Headers by which Spring AMQP's RepublishMessageRecoverer tells of a death.
const (
	springMessage    = "x-exception-message"
	springTrace      = "x-exception-stacktrace"
	springExchange   = "x-original-exchange"
	springRoutingKey = "x-original-routingKey"
)

// letter reads what was delivered. Its identity is made of all that it carries.
func (s *letterSource) letter(a arrival) bridge.Letter {
	h := newHistory(a.Headers)
	l := bridge.Letter{
		Identity: digest(a), Group: s.g.Name,
		At:    bridge.Place{Exchange: a.Exchange, RoutingKey: deadletter.Text(a.RoutingKey), Queue: a.queue},
		From:  h.origin(),
		Class: h.class(), Attempts: h.attempts(), DiedAt: h.diedAt(), History: h.places(),
		ReturnID: deadletter.Text(text(a.Headers[bridge.HeaderReturn])),
		Wrapping: wrap(a.Delivery),
	}
	l.Record = settle.Record{Raw: a.Body, Headers: letterHeaders(a.Headers), At: settle.Coordinates{Topic: a.queue}}
	if l.Record.Raw == nil {
		l.Record.Raw = []byte{}
	}
	l.Record.Event, _, l.Record.DecodeErr = cloudevents.AMQP.Decode(cloudevents.Found{Value: a.Body, Headers: decodeHeaders(a.Headers), ContentType: a.ContentType})
	if l.Record.DecodeErr != nil {
		l.Class = settle.ClassDecode
	} else {
		l.Record.Event.Topic = l.From.Exchange
	}
	if l.Record.Key = l.Record.Headers[settle.HeaderAggregateID]; l.Record.Key == "" {
		l.Record.Key = l.From.RoutingKey
	}
	if l.DiedAt.IsZero() { // RabbitMQ does not say when it got a message
		l.DiedAt = time.Now().UTC().Truncate(time.Second)
	}
	l.Message, l.Trace = deadletter.Cut(text(a.Headers[springMessage]), bridge.MaxCause), deadletter.Cut(text(a.Headers[springTrace]), bridge.MaxTrace)
	l.Exception = deadletter.Cut(deadletter.Thrown(text(a.Headers[springTrace])), bridge.MaxCause)
	l.To = s.targets(l)
	return l
}

// targets says how far a letter can go back. Without its wrapping it would not
// be what it was.
func (s *letterSource) targets(l bridge.Letter) (to []bridge.Target) {
	if l.Wrapping == nil {
		return nil
	}
	if s.g.Retry != "" {
		to = append(to, bridge.ToGroup)
	}
	if l.From.Exchange != "" || l.From.RoutingKey != "" {
		to = append(to, bridge.ToOrigin)
	}
	return to
}

// digest names a letter by its bytes, but for what changes when it is delivered
// again.
func digest(a arrival) string {
	headers := maps.Clone(a.Headers)
	for _, counted := range []string{"x-delivery-count", "x-acquired-count"} {
		delete(headers, counted)
	}
	sum := sha256.New()
	for _, part := range []any{
		a.queue, a.Exchange, a.RoutingKey, a.MessageId, a.CorrelationId, a.ReplyTo, a.Type, a.AppId, a.UserId, a.ContentType, a.ContentEncoding,
		a.Expiration, a.Priority, a.Timestamp.Unix(), len(a.Body),
	} {
		fmt.Fprintf(sum, "%q ", fmt.Sprint(part))
	}
	packed, err := json.Marshal(packTable(headers))
	if err != nil { // what was unpacked can be packed
		packed = fmt.Append(nil, headers)
	}
	sum.Write(packed)
	sum.Write(a.Body)
	return "rabbitmq." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// letterHeaders are all headers as text.
func letterHeaders(from amqp.Table) map[string]string {
	headers := make(map[string]string, len(from))
	for k, v := range from {
		headers[deadletter.Text(k)] = deadletter.Text(text(v))
	}
	return headers
}
