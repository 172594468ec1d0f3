package rocketmq

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/deadletter"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// Properties that brokers and consumers write when a message fails.
const (
	propertyRetryTopic   = "RETRY_TOPIC"
	propertyReconsumed   = "RECONSUME_TIME"
	propertyOriginID     = "ORIGIN_MESSAGE_ID"
	propertyDeadTopic    = "DLQ_ORIGIN_TOPIC"
	propertyDeadID       = "DLQ_ORIGIN_MESSAGE_ID"
	propertyDelay        = "DELAY"
	propertyRealTopic    = "REAL_TOPIC"
	propertyRealQueue    = "REAL_QID"
	propertyMaxReconsume = "MAX_RECONSUME_TIMES"
	propertyStarted      = "CONSUME_START_TIME"
)

// letter reads a message of a topic of dead ones. RocketMQ keeps no cause.
func (s *letterSource) letter(at bridge.Place, m remoting.Message) bridge.Letter {
	properties := decodeProperties(m.Properties)
	l := bridge.Letter{
		Identity: identity(m), Group: s.g.Name, At: at,
		From:  bridge.Place{Topic: deadletter.Text(properties[propertyRetryTopic])},
		Class: settle.ClassHandler, Attempts: m.Redelivered, DiedAt: m.StoredAt.UTC(),
		ReturnID: deadletter.Text(properties[bridge.HeaderReturn]),
		Wrapping: wrap(m),
	}
	if l.From.Topic == "" {
		l.From.Topic = deadletter.Text(properties[propertyDeadTopic])
	}
	// Orderly consumers send a message back as a new one that says how often it came.
	if n, err := strconv.Atoi(properties[propertyReconsumed]); err == nil && n < 1<<20 {
		l.Attempts = max(l.Attempts, n)
	}
	l.Record = settle.Record{
		Position: m.Offset + 1, Raw: m.Body, Headers: letterHeaders(properties), Key: deadletter.Text(keyOf(properties)), RecordedAt: m.StoredAt.UTC(),
		At: settle.Coordinates{Topic: m.Topic, Partition: at.Partition, Offset: m.Offset},
	}
	if m.BodyErr == nil {
		l.Record.Event, _, l.Record.DecodeErr = cloudevents.RocketMQ.Decode(cloudevents.Found{Value: m.Body, Headers: headersOf(properties), Key: keyOf(properties)})
	} else {
		l.Record.DecodeErr = m.BodyErr
	}
	switch {
	case l.Record.DecodeErr == nil:
		l.Record.Event.Topic = l.From.Topic
	case len(m.Body) == 0:
		l.Record.Raw, l.Record.DecodeErr = []byte{}, errors.New("the message has no body, and is no event")
	}
	if l.Record.DecodeErr != nil {
		l.Class = settle.ClassDecode
	}
	l.To = s.targets(l)
	return l
}

// identity is a message's place in its broker's log, which is its own, and when it
// was stored there: a broker whose disk was emptied counts anew.
func identity(m remoting.Message) string {
	return fmt.Sprintf("rocketmq.%s.%s", m.ID, strconv.FormatInt(m.StoredAt.UnixMilli(), 36))
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
	if badTopic(l.From.Topic) == "" && !slices.Contains(s.g.Dead, l.From.Topic) {
		to = append(to, bridge.ToOrigin)
	}
	return to
}

// letterHeaders are all properties as text.
func letterHeaders(from map[string]string) map[string]string {
	headers := make(map[string]string, len(from))
	for name, value := range from {
		headers[deadletter.Text(name)] = deadletter.Text(value)
	}
	return headers
}

// isOfDeath names the properties that a message has because it failed, or of the way
// that it went, and ours of the last return.
func isOfDeath(name string) bool {
	switch name {
	case propertyRetryTopic, propertyReconsumed, propertyOriginID, propertyDeadTopic, propertyDeadID, propertyDelay, propertyRealTopic, propertyRealQueue,
		propertyMaxReconsume, propertyStarted, bridge.HeaderReturn, "MIN_OFFSET", "MAX_OFFSET":
		return true
	}
	return strings.HasPrefix(name, "TIMER_")
}
