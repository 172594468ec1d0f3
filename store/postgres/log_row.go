package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/outboxlog"
)

// What eventRow reads: of settle_outbox_row as e, of a query that has selected
// them, and in a row that has no event.
const (
	rowColumns = `e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq, e.biz_key, e.trace_id, e.causation_id,
 e.supersedes, e.topic, e.version, e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload`
	rowNames = `id, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, causation_id,
 supersedes, topic, version, content_type, occurred_at, appended_at, not_before, headers, payload`
	noRow = `NULL::bigint AS id, NULL::text AS event_id, NULL::text AS event_type, NULL::text AS aggregate_type, NULL::text AS aggregate_id,
 NULL::bigint AS aggregate_seq, NULL::text AS biz_key, NULL::text AS trace_id, NULL::text AS causation_id, NULL::text AS supersedes,
 NULL::text AS topic, NULL::integer AS version, NULL::text AS content_type, NULL::timestamptz AS occurred_at,
 NULL::timestamptz AS appended_at, NULL::timestamptz AS not_before, NULL::jsonb AS headers, NULL::bytea AS payload`
)

// pageRow is a row of poll: the head, with an epoch, or an event. flag says of
// the head that something is not durable, of an event that it is another lane's.
type pageRow struct {
	epoch, number, controls pgtype.Int8
	flag                    pgtype.Bool
	row                     eventRow
}

// eventRow is a row of settle_outbox_row, or what a left join has in its place.
type eventRow struct {
	// of is the adoption of the table that it stands in; nil for our own.
	of     *adopt.Outbox
	memory outboxlog.Memory

	id, seq                            pgtype.Int8
	version                            pgtype.Int4
	eventID, eventType, aggType, aggID textColumn
	biz, trace, causation, supersedes  textColumn
	topic, contentType                 textColumn
	occurredAt, appendedAt, notBefore  pgtype.Timestamptz
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
	e.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq = r.eventID.string, r.eventType.string, r.aggType.string, r.aggID.string, r.seq.Int64
	e.BizKey, e.TraceID, e.CausationID, e.Supersedes = r.biz.string, r.trace.string, r.causation.string, r.supersedes.string
	e.Topic, e.Version, e.ContentType, e.Payload = r.topic.string, int(r.version.Int32), r.contentType.string, r.payload.bytes
	e.OccurredAt, e.AppendedAt, e.NotBefore = instant(r.occurredAt), instant(r.appendedAt), instant(r.notBefore)
	if e.BizKey == "" {
		e.BizKey = e.AggregateID
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = e.AppendedAt
	}
	row := relay.Row{ID: r.id.Int64, Event: e}
	if r.of != nil {
		r.of.Complete(e, &row, r.headers.bytes)
	} else if len(r.headers.bytes) > 0 {
		if err := json.Unmarshal(r.headers.bytes, &e.Headers); err != nil {
			row.Defect = "headers are not a JSON object of strings: " + err.Error()
		}
	}
	switch {
	case e.AggregateID == "":
		row.Defect = "aggregate_id is empty; it is the key that orders events"
	case r.occurredAt.InfinityModifier != pgtype.Finite || r.appendedAt.InfinityModifier != pgtype.Finite || r.notBefore.InfinityModifier != pgtype.Finite:
		row.Defect = "a time is infinite"
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

// instant reads a nullable column of time.
func instant(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}
