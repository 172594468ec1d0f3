package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/store/halflog"
)

const (
	trailHalves = `SELECT tx_id, state, event_id, event_type, aggregate_id, coalesce(trace_id, ''), topic, handle, cause, recorded_at, ended_at, due_at, tries
FROM t_half_message WHERE event_id = ANY($1) ORDER BY recorded_at`

	trailHalfChecks = `SELECT tx_id, event_id, event_type, aggregate_id, asked_by, answer, max(cause), max(owner), count(*), min(asked_at), max(asked_at)
FROM t_half_check WHERE event_id = ANY($1) GROUP BY tx_id, event_id, event_type, aggregate_id, asked_by, answer ORDER BY min(asked_at)`
)

// halves tells what went as half messages.
func (t *trail) halves(ctx context.Context) error {
	var records []halflog.Row
	var r halflog.Row
	var recorded, ended, due pgtype.Timestamptz
	err := each(ctx, t.tx, []any{&r.TxID, &r.State, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Topic, &r.Handle, &r.Cause, &recorded, &ended, &due, &r.Tries}, func() {
		r.RecordedAt, r.EndedAt, r.DueAt = instant(recorded), instant(ended), instant(due)
		records = append(records, r)
	}, trailHalves, t.events)
	if err != nil {
		return err
	}
	var asked []halflog.Asked
	var a halflog.Asked
	var first, last pgtype.Timestamptz
	err = each(ctx, t.tx, []any{&a.TxID, &a.EventID, &a.EventType, &a.Key, &a.By, &a.Answer, &a.Cause, &a.Owner, &a.Count, &first, &last}, func() {
		a.First, a.Last = instant(first), instant(last)
		asked = append(asked, a)
	}, trailHalfChecks, t.events)
	t.steps = append(t.steps, halflog.Steps(records, asked)...)
	return err
}
