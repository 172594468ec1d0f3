package sqlite

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle/store/halflog"
)

const (
	trailHalves = `SELECT tx_id, state, event_id, event_type, aggregate_id, coalesce(trace_id, ''), topic, handle, cause, recorded_at, ended_at, due_at, tries
FROM t_half_message WHERE event_id IN (SELECT value FROM json_each(?)) ORDER BY recorded_at`

	trailHalfChecks = `SELECT tx_id, event_id, event_type, aggregate_id, asked_by, answer, max(cause), max(owner), count(*), min(asked_at), max(asked_at)
FROM t_half_check WHERE event_id IN (SELECT value FROM json_each(?)) GROUP BY tx_id, event_id, event_type, aggregate_id, asked_by, answer ORDER BY min(asked_at)`
)

// halves tells what went as half messages.
func (t *trail) halves(ctx context.Context) error {
	var records []halflog.Row
	err := each(ctx, t.tx, func(rows *sql.Rows) error {
		var r halflog.Row
		var recorded int64
		var ended, due sql.NullInt64
		err := rows.Scan(&r.TxID, &r.State, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Topic, &r.Handle, &r.Cause, &recorded, &ended, &due, &r.Tries)
		r.RecordedAt, r.EndedAt, r.DueAt = fromMicros(recorded), when(ended), when(due)
		records = append(records, r)
		return err
	}, trailHalves, t.events)
	if err != nil {
		return err
	}
	var asked []halflog.Asked
	err = each(ctx, t.tx, func(rows *sql.Rows) error {
		var a halflog.Asked
		var first, last int64
		err := rows.Scan(&a.TxID, &a.EventID, &a.EventType, &a.Key, &a.By, &a.Answer, &a.Cause, &a.Owner, &a.Count, &first, &last)
		a.First, a.Last = fromMicros(first), fromMicros(last)
		asked = append(asked, a)
		return err
	}, trailHalfChecks, t.events)
	t.steps = append(t.steps, halflog.Steps(records, asked)...)
	return err
}
