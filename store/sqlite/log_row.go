package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// rowColumns are what readRow reads, of t_outbox_event as e.
const rowColumns = `e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq, e.biz_key, e.trace_id, e.causation_id,
 e.supersedes, e.topic, e.version, e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload`

const rowWidth = 18

// readRow makes a row of what the driver has read, and tells its size. Texts
// and blobs of the driver are copies already and are kept as they are.
func readRow(v []driver.Value) (relay.Row, int) {
	e := &settle.Event{
		ID: textOf(v[1]), Type: textOf(v[2]), AggregateType: textOf(v[3]), AggregateID: textOf(v[4]), AggregateSeq: integer(v[5]),
		BizKey: textOf(v[6]), TraceID: textOf(v[7]), CausationID: textOf(v[8]), Supersedes: textOf(v[9]), Topic: textOf(v[10]),
		Version: int(integer(v[11])), ContentType: textOf(v[12]), OccurredAt: instant(v[13]), AppendedAt: instant(v[14]), NotBefore: instant(v[15]),
	}
	if e.BizKey == "" {
		e.BizKey = e.AggregateID
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = e.AppendedAt
	}
	row := relay.Row{ID: integer(v[0]), Event: e}
	size := 0
	if headers := textOf(v[16]); headers != "" {
		size = len(headers)
		if err := json.Unmarshal([]byte(headers), &e.Headers); err != nil {
			row.Defect = "headers are not a JSON object of strings: " + err.Error()
		} else if !utf8.ValidString(headers) {
			row.Defect = "headers are not valid UTF-8"
		}
	}
	switch payload := v[17].(type) {
	case []byte:
		e.Payload = payload
	case string:
		e.Payload = []byte(payload)
	case nil:
	default:
		row.Defect = "payload is a number; it must be bytes or text"
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
	return row, size + len(e.Payload)
}

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// textOf reads a column that may be NULL.
func textOf(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func instant(v driver.Value) time.Time {
	us, ok := v.(int64)
	if !ok {
		return time.Time{}
	}
	return fromMicros(us)
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
