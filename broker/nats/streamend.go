package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

// endFor is how long the end of a stream is good for all partitions' idle
// floors. An older end is only lower, never wrong.
const endFor = time.Second

// streamEnd knows where a stream ends, asked once for all its partitions.
type streamEnd struct {
	b     *Broker
	topic *topic

	mu sync.Mutex
	at time.Time
	to settle.Floor
}

// floor returns the stream's last position with the event id there.
func (e *streamEnd) floor(ctx context.Context) (settle.Floor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) < endFor {
		return e.to, nil
	}
	began := time.Now()
	info, stream, err := e.b.streamInfo(ctx, e.topic)
	if err != nil {
		return settle.Floor{}, err
	}
	last := int64(info.State.LastSeq)
	id, _, err := eventIDAt(ctx, stream, last)
	if err != nil {
		return settle.Floor{}, err
	}
	e.at, e.to = began, settle.Floor{Generation: generation(info), Position: last, EventID: id}
	return e.to, nil
}

func (b *Broker) streamInfo(ctx context.Context, t *topic) (*jetstream.StreamInfo, jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, t.stream)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for stream %q: %w", t.stream, err)
	}
	return stream.CachedInfo(), stream, nil
}

// generation identifies the life of a stream.
func generation(info *jetstream.StreamInfo) string {
	return info.Created.UTC().Format(time.RFC3339Nano)
}

// eventIDAt returns the id of the event at a sequence, empty for a foreign
// record; found is false when no record is there any more.
func eventIDAt(ctx context.Context, stream jetstream.Stream, seq int64) (id string, found bool, err error) {
	if seq <= 0 {
		return "", false, nil
	}
	m, err := stream.GetMsg(ctx, uint64(seq))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read record %d: %w", seq, err)
	}
	e, _, err := cloudevents.NATS.Decode(cloudevents.Found{Value: m.Data, Headers: decodeHeaders(m.Header)})
	if err != nil {
		return "", true, nil // foreign: it has no id
	}
	return e.ID, true, nil
}

// checkFloor refuses a stream that is not the one the floor was written for:
// made anew, restored to an earlier state, or holding another event there.
func checkFloor(ctx context.Context, info *jetstream.StreamInfo, stream jetstream.Stream, floor settle.Floor) error {
	if floor.Position == 0 {
		return nil
	}
	differs := func(format string, v ...any) error {
		return fmt.Errorf("stream %q is at another point than the group, which has done everything up to %d (event %q): %s: %w",
			info.Config.Name, floor.Position, floor.EventID, fmt.Sprintf(format, v...), settle.ErrNewGeneration)
	}
	if now := generation(info); floor.Generation != now {
		return differs("it was made anew at %s, the position is from the one made at %s", now, floor.Generation)
	}
	if last := int64(info.State.LastSeq); last < floor.Position {
		return differs("it ends at %d", last)
	}
	id, found, err := eventIDAt(ctx, stream, floor.Position)
	if err != nil {
		return err
	}
	if found && floor.EventID != "" && id != floor.EventID {
		return differs("event %q is there", id)
	}
	return nil
}

// record turns a delivered message into a record.
func (t *topic) record(m *nats.Msg, md *nats.MsgMetadata) settle.Record {
	r := settle.Record{
		Position: int64(md.Sequence.Stream), Raw: m.Data, Headers: decodeHeaders(m.Header),
		RecordedAt: md.Timestamp, At: t.at(m.Subject, int64(md.Sequence.Stream)),
	}
	cloudevents.NATS.Read(&r, "")
	if r.Event != nil {
		r.Key, r.Event.Topic = r.Event.Key(), t.name
	} else {
		r.Key = r.Headers[settle.HeaderAggregateID]
	}
	return r
}
