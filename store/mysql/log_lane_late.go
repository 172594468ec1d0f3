package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/settlemq/settle/store/outboxlog"
)

// Each lane has its own holes, and what one has given up another may still
// await, or have sent. The owner of the key decides: what it is still to come to
// stays as it is, what it has dealt with is no hole any more, and the rest is
// late. Where events may go to several destinations, all is that was passed.
const (
	rowsToJudge = `SELECT e.id, e.topic, e.event_id FROM t_outbox_event e WHERE e.id IN (%s)`

	recorded = `SELECT id FROM t_outbox_parked WHERE id IN (%[1]s) UNION ALL SELECT id FROM t_outbox_delayed WHERE id IN (%[1]s)
UNION ALL SELECT e.id FROM settle_skip k STRAIGHT_JOIN t_outbox_event e ON (e.event_id) = k.event_id WHERE k.event_id IN (%[2]s)
UNION ALL SELECT d.outbox_id FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id IN (%[2]s)`
)

// judged is a row of this lane that is there although its id was given up.
type judged struct {
	id             int64
	topic, eventID string
}

// passedRows leaves those of some ids of this lane that its readers have passed.
func (l *Log) passedRows(ctx context.Context, tx *sql.Tx, ids []int64) (all []judged, lists bool, err error) {
	st, err := l.s.readPosition(ctx, tx, l.lane().Number)
	if err != nil {
		return nil, false, err
	}
	var row judged
	var topic stringColumn
	for some := range slices.Chunk(ids, rowsAtOnce) {
		err := each(ctx, tx, []any{&row.id, &topic, &row.eventID}, func() {
			row.topic = topic.string
			by := readerOf(row.topic, st.Checkpoint.Readers)
			if _, open := slices.BinarySearch(by.Open, row.id); row.id <= by.Cursor && !open {
				all = append(all, row)
			}
		}, fmt.Sprintf(rowsToJudge, times(len(some), "?")), list(some)...)
		if err != nil {
			return nil, false, err
		}
	}
	return all, outboxlog.HasLists(st.Checkpoint.Readers), nil
}

// lateOfLane returns which of some ids of this lane are dealt with or late, and
// which are late.
func (l *Log) lateOfLane(ctx context.Context, tx *sql.Tx, ids []int64) (decided, late []int64, err error) {
	rows, lists, err := l.passedRows(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	if lists {
		for _, r := range rows {
			decided = append(decided, r.id)
		}
		return decided, slices.Clone(decided), nil
	}
	dealt := map[int64]bool{}
	var id int64
	for some := range slices.Chunk(rows, rowsAtOnce) {
		var rowIDs, events []any
		for _, r := range some {
			rowIDs, events = append(rowIDs, r.id), append(events, r.eventID)
		}
		query := fmt.Sprintf(recorded, times(len(some), "?"), times(len(some), "?"))
		if err := each(ctx, tx, []any{&id}, func() { dealt[id] = true }, l.s.reading(query), slices.Concat(rowIDs, rowIDs, events, events)...); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range rows {
		decided = append(decided, r.id)
		if !dealt[r.id] {
			late = append(late, r.id)
		}
	}
	sent := map[int64]bool{}
	err = eachSent(ctx, tx, late, func(s sentRow) { sent[s.id] = true })
	return decided, slices.DeleteFunc(late, func(id int64) bool { return sent[id] }), err
}
