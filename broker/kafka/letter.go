package kafka

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// letter reads a record of a dead-letter topic. Its identity is its place.
func (s *letterSource) letter(topic [16]byte, r *kgo.Record) bridge.Letter {
	told := cause{r.Headers}
	l := bridge.Letter{
		Identity: identity(topic, r), Group: s.g.Name,
		At:   bridge.Place{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset},
		From: told.origin(), Class: settle.ClassHandler, Attempts: told.attempts(), DiedAt: recordedAt(r).UTC(),
		ReturnID: deadletter.Text(told.last(bridge.HeaderReturn)),
		Wrapping: wrap(r),
	}
	l.Exception = deadletter.Cut(told.exception(), bridge.MaxCause)
	l.Message = deadletter.Cut(told.either(dltMessage, retryMessage, dltKeyMessage, retryKeyMessage), bridge.MaxCause)
	l.Trace = deadletter.Cut(told.either(dltTrace, retryTrace, dltKeyTrace, retryKeyTrace), bridge.MaxTrace)
	l.Record = settle.Record{
		Position: r.Offset, Raw: r.Value, Headers: letterHeaders(r.Headers), Key: deadletter.Text(string(r.Key)), RecordedAt: recordedAt(r),
		At: settle.Coordinates{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset},
	}
	l.Record.Event, _, l.Record.DecodeErr = cloudevents.Kafka.Decode(cloudevents.Found{Value: r.Value, Headers: decodeHeaders(r.Headers), Key: string(r.Key)})
	switch {
	case l.Record.DecodeErr == nil:
		l.Record.Event.Topic = l.From.Topic
	case r.Value == nil:
		l.Record.Raw = []byte{}
		l.Record.DecodeErr = errors.New("a tombstone: the record has no value, and is no event")
	}
	if l.Record.DecodeErr != nil || unreadable(l.Exception) {
		l.Class = settle.ClassDecode
	}
	l.To = s.targets(l, told.last(dltGroup))
	return l
}

// identity is a place: a topic that was made anew counts anew, and has another
// id. Clusters before 2.8 have none.
func identity(topic [16]byte, r *kgo.Record) string {
	id := base64.RawURLEncoding.EncodeToString(topic[:])
	if topic == [16]byte{} {
		sum := sha256.Sum256([]byte(r.Topic))
		id = base64.RawURLEncoding.EncodeToString(sum[:16])
	}
	return fmt.Sprintf("kafka.%s.%d.%d", id, r.Partition, r.Offset)
}

// targets says how far a letter can go back. Without its wrapping it would not
// be what it was, and what is another group's is not this one's to retry.
func (s *letterSource) targets(l bridge.Letter, group string) (to []bridge.Target) {
	if l.Wrapping == nil {
		return nil
	}
	if s.g.Retry != "" && (group == "" || group == s.g.Name) {
		to = append(to, bridge.ToGroup)
	}
	if l.From.Topic != "" && badTopic(l.From.Topic) == "" && !slices.Contains(s.g.Dead, l.From.Topic) {
		to = append(to, bridge.ToOrigin)
	}
	return to
}

// unreadable reports whether the consumer could not read the record.
func unreadable(exception string) bool {
	return strings.HasSuffix(exception, ".DeserializationException") || strings.HasSuffix(exception, ".SerializationException") ||
		strings.HasSuffix(exception, "ConversionException")
}

// letterHeaders are all headers as text: numbers of Spring's are bytes.
func letterHeaders(from []kgo.RecordHeader) map[string]string {
	headers := make(map[string]string, len(from))
	for _, h := range from {
		headers[deadletter.Text(h.Key)] = told(h)
	}
	return headers
}
