package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// death is a message that was given up.
type death struct {
	advisory advisory
	// message is nil where the stream has it no more.
	message *stored
}

// letter makes a letter of a death. life is what the stream is now, nil where it is
// gone. The server tells no cause but the reason of who terminates a message.
func (s *letterSource) letter(life *jetstream.StreamInfo, d death) bridge.Letter {
	a := d.advisory
	l := bridge.Letter{
		Identity: identity(life, a), Group: s.g.Name,
		At:    bridge.Place{Topic: a.Stream, Offset: a.Sequence},
		From:  bridge.Place{Topic: a.Stream, Offset: a.Sequence},
		Class: settle.ClassHandler, Message: deadletter.Cut(a.Reason, bridge.MaxCause),
		Attempts: a.Deliveries, DiedAt: a.At.UTC(),
	}
	l.Record = settle.Record{
		Position: a.Sequence, Raw: []byte{}, RecordedAt: a.At.UTC(),
		At: settle.Coordinates{Topic: a.Stream, Offset: a.Sequence},
	}
	if why := gone(life, d); why != "" {
		l.Record.DecodeErr = errors.New(why)
		l.Message = deadletter.Cut(strings.TrimSuffix(why+"; "+a.Reason, "; "), bridge.MaxCause)
		return l
	}
	header := d.message.header()
	l.From = origin(life, d.message, header)
	l.ReturnID = deadletter.Text(header.Get(bridge.HeaderReturn))
	l.Wrapping = wrap(d.message)
	l.Record.Headers, l.Record.RecordedAt = letterHeaders(header), d.message.At.UTC()
	if d.message.Data != nil {
		l.Record.Raw = d.message.Data
	}
	l.Record.Event, _, l.Record.DecodeErr = cloudevents.NATS.Decode(cloudevents.Found{Value: l.Record.Raw, Headers: decodeHeaders(header)})
	if l.Record.DecodeErr == nil {
		l.Record.Event.Topic, l.Record.Key = l.From.Topic, l.Record.Event.Key()
	} else {
		l.Class, l.Record.Key = settle.ClassDecode, l.Record.Headers[settle.HeaderAggregateID]
	}
	l.To = s.targets(l)
	return l
}

// identity is the message's place in the life of its stream. A stream that was made
// anew since, or is gone, tells nothing of the life that the advisory is of; the
// advisory has an id of its own.
func identity(life *jetstream.StreamInfo, a advisory) string {
	if life == nil || life.Created.After(a.At) {
		return "nats.gone." + a.ID
	}
	sum := sha256.Sum256([]byte(a.Stream + "\n" + generation(life)))
	return fmt.Sprintf("nats.%s.%d", hex.EncodeToString(sum[:12]), a.Sequence)
}

// gone says why there is nothing of a message but that it was given up, or nothing.
func gone(life *jetstream.StreamInfo, d death) string {
	a := d.advisory
	switch {
	case life == nil:
		return fmt.Sprintf("message %d can't be read: stream %q was deleted after the message had been given up", a.Sequence, a.Stream)
	case life.Created.After(a.At):
		return fmt.Sprintf("message %d can't be read: stream %q was made anew after the message had been given up", a.Sequence, a.Stream)
	case d.message == nil:
		return fmt.Sprintf("message %d can't be read: it was deleted from stream %q before the bridge read it", a.Sequence, a.Stream)
	}
	return ""
}

// origin is where a message came from at first: a partition of a topic, or a subject
// of a stream that is not Settle's. What had gone back to its group alone says it.
func origin(life *jetstream.StreamInfo, m *stored, header nats.Header) bridge.Place {
	if o, is := deadletter.ParseOrigin(header.Get(deadletter.HeaderOrigin)); is && o.RoutingKey != "" {
		return bridge.Place{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, RoutingKey: o.RoutingKey}
	}
	at := bridge.Place{Topic: life.Config.Name, Offset: m.Sequence}
	if !deadletter.IsText(m.Subject) { // it can't be kept, and nothing can go back there
		return at
	}
	at.RoutingKey = m.Subject
	dot := strings.LastIndexByte(m.Subject, '.')
	if life.Config.Metadata[metaPartitions] == "" || dot < 0 {
		return at
	}
	if n, err := strconv.Atoi(m.Subject[dot+1:]); err == nil && n >= 0 {
		at.Topic, at.Partition = m.Subject[:dot], n
	}
	return at
}

// targets says how far a letter can go back. Without its wrapping it would not be
// what it was.
func (s *letterSource) targets(l bridge.Letter) (to []bridge.Target) {
	if l.Wrapping == nil {
		return nil
	}
	if s.g.Retry != "" {
		to = append(to, bridge.ToGroup)
	}
	if l.From.RoutingKey != "" && badSubject(l.From.RoutingKey) == "" {
		to = append(to, bridge.ToOrigin)
	}
	return to
}

// letterHeaders are all headers as text.
func letterHeaders(from nats.Header) map[string]string {
	headers := make(map[string]string, len(from))
	for name, values := range from {
		headers[deadletter.Text(name)] = deadletter.Text(strings.Join(values, ", "))
	}
	return headers
}
