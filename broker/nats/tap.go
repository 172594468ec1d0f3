package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

// Tap reaches a topic's stream without anything that Publish and Subscribe
// promise: drills and checks read the log back with it, and write what a
// foreign program might. Its methods may be called from several goroutines;
// each fails at once while the server is away.
type Tap struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// tapTimeout bounds each request of a Tap.
const tapTimeout = 2 * time.Second

// OpenTap connects to url. A lost connection is restored for ever.
func OpenTap(url string) (*Tap, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	nc, err := nats.Connect(strings.Join(at.servers, ","), append([]nats.Option{
		nats.Name("settle-tap"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait), nats.ReconnectBufSize(-1), nats.Timeout(dialTimeout),
	}, at.login...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(tapTimeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	return &Tap{nc: nc, js: js}, nil
}

// Close ends the connection.
func (t *Tap) Close() error {
	t.nc.Close()
	return nil
}

// Keep does nothing: a topic keeps what comes.
func (t *Tap) Keep(context.Context, string, []string) error { return nil }

// Forget does nothing, as Keep.
func (t *Tap) Forget(context.Context, string) error { return nil }

// Places reports that an acknowledgement says where a record is.
func (t *Tap) Places() bool { return true }

// Bounds returns the positions of the first and the last record of topic;
// last is 0 when there was none yet.
func (t *Tap) Bounds(ctx context.Context, topic string) (first, last int64, err error) {
	s, err := t.js.Stream(ctx, StreamName(topic))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("look at topic %q: %w", topic, err)
	}
	state := s.CachedInfo().State
	return int64(state.FirstSeq), int64(state.LastSeq), nil
}

// Ready returns nil if the server answers.
func (t *Tap) Ready(ctx context.Context) error {
	_, _, err := t.Bounds(ctx, settle.DefaultTopic)
	return err
}

// ReadAll calls visit with every record that topic holds now, in the order in
// which they are stored.
func (t *Tap) ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error {
	first, last, err := t.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	return t.ReadLog(ctx, topic, first, last, visit)
}

// ReadSome does the same with up to n consecutive records from one place in
// the log: 0 is its beginning, 1 its end.
func (t *Tap) ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error {
	first, last, err := t.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	from := first + int64(place*float64(max(last-first-int64(n), 0)))
	return t.ReadLog(ctx, topic, from, min(from+int64(n)-1, last), visit)
}

// Remove deletes a topic. It has no groups of its own.
func (t *Tap) Remove(ctx context.Context, topic string, _ []string) error {
	if err := t.js.DeleteStream(ctx, StreamName(topic)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete topic %q: %w", topic, err)
	}
	return nil
}

// ReadLog calls visit with every record of topic from one position up to and
// including another, in the order in which they are stored.
func (t *Tap) ReadLog(ctx context.Context, topic string, from, to int64, visit func(settle.Record) error) error {
	if to < max(from, 1) {
		return nil
	}
	c, err := t.js.OrderedConsumer(ctx, StreamName(topic), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(max(from, 1)),
	})
	if err != nil {
		return fmt.Errorf("read topic %q: %w", topic, err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return fmt.Errorf("read topic %q: %w", topic, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read topic %q: %w", topic, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read topic %q: %w", topic, err)
		}
		position := int64(meta.Sequence.Stream)
		if position > to {
			return nil
		}
		if err := visit(tapped(topic, m, meta)); err != nil || position == to {
			return err
		}
	}
}

func tapped(topic string, m jetstream.Msg, meta *jetstream.MsgMetadata) settle.Record {
	partition, err := strconv.Atoi(strings.TrimPrefix(m.Subject(), topic+"."))
	if err != nil {
		partition = -1 // not one of ours; the checks will say so
	}
	r := settle.Record{
		Position: int64(meta.Sequence.Stream), Raw: m.Data(), Headers: decodeHeaders(m.Headers()), RecordedAt: meta.Timestamp,
		At: settle.Coordinates{Topic: topic, Partition: partition, Offset: int64(meta.Sequence.Stream)},
	}
	cloudevents.NATS.Read(&r, "")
	return r
}

// Plant stores value as it is and returns where, once the server has
// acknowledged it. Under an id that the server remembers nothing is stored a
// second time, and the place of the first is returned.
func (t *Tap) Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error) {
	m := &nats.Msg{Subject: topic + "." + strconv.Itoa(partition), Header: nats.Header{}, Data: value}
	for k, v := range headers {
		m.Header[k] = []string{v}
	}
	ack, err := t.js.PublishMsg(ctx, m, jetstream.WithMsgID(messageID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	return settle.Coordinates{Topic: topic, Partition: partition, Offset: int64(ack.Sequence)}, nil
}
