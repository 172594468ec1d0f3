package mysql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/outboxlog"
)

// What eventRow reads: of t_outbox_event or logRows as e, and in a row that has no event.
const (
	rowColumns = `e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq, e.biz_key, e.trace_id, e.causation_id,
 e.supersedes, e.topic, e.version, e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload`
	noRow = `NULL AS id, NULL AS event_id, NULL AS event_type, NULL AS aggregate_type, NULL AS aggregate_id, NULL AS aggregate_seq, NULL AS biz_key,
 NULL AS trace_id, NULL AS causation_id, NULL AS supersedes, NULL AS topic, NULL AS version, NULL AS content_type, NULL AS occurred_at,
 NULL AS appended_at, NULL AS not_before, NULL AS headers, NULL AS payload`
)

// pageRow is a row of poll: the head, with an epoch, or an event. The flag tells
// of the head that it is not durable, of an event that it is another lane's.
type pageRow struct {
	epoch, number, controls, flag intColumn
	run                           stringColumn
	row                           eventRow
}

// eventRow is a row of t_outbox_event, or what a left join has in its place.
type eventRow struct {
	// of is the adoption of the table that it stands in; nil for our own.
	of     *adopt.Outbox
	memory outboxlog.Memory

	id, seq, version                   intColumn
	eventID, eventType, aggType, aggID textColumn
	biz, trace, causation, supersedes  textColumn
	topic, contentType                 textColumn
	occurredAt, appendedAt, notBefore  timeColumn
	headers, payload                   bytesColumn
}

// into is what rows are scanned into, one after the other.
func (r *eventRow) into() []any {
	for _, c := range []*textColumn{&r.eventID, &r.eventType, &r.aggType, &r.aggID, &r.biz, &r.trace, &r.causation, &r.supersedes, &r.topic, &r.contentType} {
		c.in = &r.memory
	}
	r.headers.in, r.payload.in = &r.memory, &r.memory
	return []any{
		&r.id, &r.eventID, &r.eventType, &r.aggType, &r.aggID, &r.seq, &r.biz, &r.trace, &r.causation,
		&r.supersedes, &r.topic, &r.version, &r.contentType, &r.occurredAt, &r.appendedAt, &r.notBefore, &r.headers, &r.payload,
	}
}

// row makes a row of what was read, and tells its size.
func (r *eventRow) row() (relay.Row, int) {
	e := r.memory.Event()
	e.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq = r.eventID.string, r.eventType.string, r.aggType.string, r.aggID.string, r.seq.int64
	e.BizKey, e.TraceID, e.CausationID, e.Supersedes = r.biz.string, r.trace.string, r.causation.string, r.supersedes.string
	e.Topic, e.Version, e.ContentType, e.Payload = r.topic.string, int(r.version.int64), r.contentType.string, r.payload.bytes
	e.OccurredAt, e.AppendedAt, e.NotBefore = r.occurredAt.Time, r.appendedAt.Time, r.notBefore.Time
	if e.BizKey == "" {
		e.BizKey = e.AggregateID
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = e.AppendedAt
	}
	row := relay.Row{ID: r.id.int64, Event: e}
	if r.of != nil {
		r.of.Complete(e, &row, r.headers.bytes)
		shorten(e, &row)
	} else if len(r.headers.bytes) > 0 {
		if err := json.Unmarshal(r.headers.bytes, &e.Headers); err != nil {
			row.Defect = "headers are not a JSON object of strings: " + err.Error()
		}
	}
	if e.AggregateID == "" {
		row.Defect = "aggregate_id is empty; it is the key that orders events"
	}
	// A publisher refuses what can't be sent; a delayed event would wait for
	// that until its time has come, in some year.
	if row.Defect == "" && !e.NotBefore.IsZero() {
		if err := e.Validate(); err != nil {
			row.Defect = err.Error()
		}
	}
	return row, len(r.headers.bytes) + len(r.payload.bytes)
}

// shorten makes what is too long for our own columns fit, so that the row can be
// parked. It can't be sent: a publisher would refuse it.
func shorten(e *settle.Event, row *relay.Row) {
	for _, field := range []*string{&e.ID, &e.Type, &e.AggregateType, &e.AggregateID} {
		if short := fit(*field); short != *field {
			if err := e.Validate(); err != nil && row.Defect == "" {
				row.Defect = err.Error()
			}
			*field = short
		}
	}
}

// intColumn is a nullable column of whole numbers, 0 where it is NULL.
type intColumn struct {
	int64
	set bool
}

// Scan implements sql.Scanner.
func (c *intColumn) Scan(src any) (err error) {
	c.set = src != nil
	switch v := src.(type) {
	case nil:
		c.int64 = 0
	case int64:
		c.int64 = v
	case uint64:
		c.int64 = int64(v)
	case []byte:
		c.int64, err = strconv.ParseInt(string(v), 10, 64)
	default:
		err = fmt.Errorf("read %T as a number", src)
	}
	return err
}

// textColumn is a nullable column of text, "" where it is NULL. A value that is
// that of the row before is kept: types and topics come again and again.
type textColumn struct {
	string
	in *outboxlog.Memory
}

// Scan implements sql.Scanner.
func (c *textColumn) Scan(src any) error {
	b, err := bytesOf(src)
	if c.string != string(b) {
		c.string = c.in.Text(b)
	}
	return err
}

// stringColumn is a nullable column of text that is read once.
type stringColumn struct{ string }

// Scan implements sql.Scanner.
func (c *stringColumn) Scan(src any) error {
	b, err := bytesOf(src)
	c.string = string(b)
	return err
}

// bytesColumn is a nullable column of bytes.
type bytesColumn struct {
	bytes []byte
	in    *outboxlog.Memory
}

// Scan implements sql.Scanner.
func (c *bytesColumn) Scan(src any) error {
	b, err := bytesOf(src)
	c.bytes = c.in.Bytes(b)
	return err
}

func bytesOf(src any) ([]byte, error) {
	switch v := src.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	}
	return nil, fmt.Errorf("read %T as text", src)
}

// timeColumn is a nullable column of time, the zero time where it is NULL.
type timeColumn struct{ time.Time }

// Scan implements sql.Scanner.
func (c *timeColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		c.Time = time.Time{}
	case time.Time:
		c.Time = v.UTC()
	default:
		return fmt.Errorf("read %T as a time", src)
	}
	return nil
}
