package postgres

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Of a row that is owed to several destinations a statement takes one out; the
// next deletes the row if that was the last.
const (
	oweDelayed = `UPDATE t_outbox_delayed SET owed = array_remove(coalesce(owed, $2::text[]), $3) WHERE id = $1`
	oweExtra   = `UPDATE t_outbox_extra SET owed = array_remove(coalesce(owed, $2::text[]), $3) WHERE id = $1`

	dropSharedDelayed = `DELETE FROM t_outbox_delayed WHERE id = $1 AND owed = '{}'`
	dropSharedExtra   = `DELETE FROM t_outbox_extra WHERE id = $1 AND owed = '{}'`

	joinDelayed = `INSERT INTO t_outbox_delayed AS t (id, event_id, destination, aggregate_id, due_at, owed) VALUES ($1,$2,$3,$4,$5,ARRAY[$3])
ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at,
 owed = array_remove(coalesce(t.owed, ARRAY[t.destination]), excluded.destination) || excluded.owed`

	passSkipOfLast = `UPDATE settle_skip SET passed_at = $1 WHERE event_id = $2 AND NOT EXISTS (SELECT 1 FROM t_outbox_parked WHERE id = $3)
AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed WHERE id = $3) AND NOT EXISTS (SELECT 1 FROM t_outbox_extra WHERE id = $3)`

	// A row that some destination still has in a side table, or has given up and
	// nobody has decided about, keeps the status that says so.
	wantShared = `SELECT w.id, w.kind, 0 AS attempts, NULL::timestamptz AS next_at, w.cause
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS w(id, event_id, kind, cause)
WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = w.id) AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = w.id)
AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = w.id)
AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = w.event_id AND d.outbox_id = w.id AND d.state IN ('OPEN', 'REPLAYING'))`
)

// leaveShare takes a row out of the side table for one of those that it is owed to.
func (w *flushing) leaveShare(from relay.Origin, id int64, destination string, share *relay.Share) {
	owe, drop := oweExtra, dropSharedExtra
	if from == relay.FromDelayed {
		owe, drop = oweDelayed, dropSharedDelayed
	}
	w.b.Queue(owe, id, share.Owed, destination)
	w.b.Queue(drop, id)
}

// passSkip ends a skip when the last destination has passed the event.
func (w *flushing) passSkip(s *relay.Skip) {
	switch over, beside := outboxlog.IsOver(s.Share); {
	case over && beside:
		w.b.Queue(passSkipOfLast, w.now, s.EventID, s.ID)
	case over:
		w.b.Queue(passSkip, w.now, s.EventID)
	}
}

// sharedRow is what becomes of a row whose event goes to several destinations, if
// no other of them has it in a side table.
type sharedRow struct{ eventID, kind, cause string }

// queueShared adds the statement that writes the status of such rows.
func (p *projection) queueShared(b *pgx.Batch, f *relay.Flush, now time.Time) {
	rows := map[int64]sharedRow{}
	for i := range f.Sent {
		if over, beside := outboxlog.IsOver(f.Sent[i].Share); over && beside {
			rows[f.Sent[i].ID] = sharedRow{f.Sent[i].EventID, projectedSent, ""}
		}
	}
	for i := range f.Skip {
		if over, beside := outboxlog.IsOver(f.Skip[i].Share); over && beside {
			rows[f.Skip[i].ID] = sharedRow{f.Skip[i].EventID, projectedDead, causePassed}
		}
	}
	if len(rows) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(rows))
	events, kinds, causes := make([]string, len(ids)), make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		events[i], kinds[i], causes[i] = rows[id].eventID, rows[id].kind, rows[id].cause
	}
	b.Queue(p.shared, ids, events, kinds, causes, now)
}
