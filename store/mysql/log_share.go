package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	delayedOwed = `SELECT id, destination, coalesce(owed, '') FROM t_outbox_delayed WHERE id IN ()`
	extraOwed   = `SELECT id, '', coalesce(owed, '') FROM t_outbox_extra WHERE id IN ()`

	oweDelayed = `UPDATE t_outbox_delayed SET owed = ? WHERE id = ?`
	oweExtra   = `UPDATE t_outbox_extra SET owed = ? WHERE id = ?`

	passSkipOfLast = `UPDATE settle_skip SET passed_at = ? WHERE event_id = ? AND NOT EXISTS (SELECT 1 FROM t_outbox_parked WHERE id = ?)
AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed WHERE id = ?) AND NOT EXISTS (SELECT 1 FROM t_outbox_extra WHERE id = ?)`

	// A row that some destination still has in a side table, or has given up and
	// nobody has decided about, keeps the status that says so.
	stillHeld = `SELECT id FROM t_outbox_parked WHERE id IN (%[1]s) UNION ALL SELECT id FROM t_outbox_delayed WHERE id IN (%[1]s) UNION ALL SELECT id FROM t_outbox_extra WHERE id IN (%[1]s)
UNION ALL SELECT outbox_id FROM t_dead_letter WHERE consumer_group = '' AND event_id IN (%[2]s) AND outbox_id IN (%[1]s) AND state IN ('OPEN', 'REPLAYING')`
)

// owedRow is to whom a row is recorded to be owed; nil where nothing is recorded.
type owedRow struct {
	destination string
	owed        []string
}

func (w *flushing) readOwed(query string, ids []int64) map[int64]owedRow {
	rows := map[int64]owedRow{}
	var id int64
	var destination, packed string
	var broken error
	for some := range slices.Chunk(ids, rowsAtOnce) {
		if w.err == nil {
			w.err = each(w.ctx, w.tx, []any{&id, &destination, &packed}, func() {
				owed, err := outboxlog.UnpackOwed(packed)
				if err != nil {
					broken = err
				}
				rows[id] = owedRow{destination, owed}
			}, ofRows(query, some))
		}
	}
	if w.err == nil {
		w.err = broken
	}
	return rows
}

// leaveShares takes rows of events that go to several destinations out of their
// side tables, for those that are done with them.
func (w *flushing) leaveShares(f *relay.Flush) {
	leaving := outboxlog.LeavingOf(f)
	if len(leaving) == 0 {
		return
	}
	ids := map[relay.Origin][]int64{}
	for _, l := range leaving {
		ids[l.From] = append(ids[l.From], l.ID)
	}
	recorded := map[relay.Origin]map[int64]owedRow{
		relay.FromDelayed: w.readOwed(delayedOwed, ids[relay.FromDelayed]),
		relay.FromExtra:   w.readOwed(extraOwed, ids[relay.FromExtra]),
	}
	var last []place
	for _, l := range leaving {
		row, found := recorded[l.From][l.ID]
		left := l.Rest(row.owed)
		switch {
		case !found:
		case len(left) == 0:
			last = append(last, place{from: l.From, id: l.ID})
		case l.From == relay.FromDelayed:
			w.exec(oweDelayed, outboxlog.PackOwed(left), l.ID)
		default:
			w.exec(oweExtra, outboxlog.PackOwed(left), l.ID)
		}
	}
	w.leave(last)
}

// joinDelayed has delayed rows, which are there by now, owed to those that they
// were delayed for. before is what they were owed to.
func (w *flushing) joinDelayed(delays []relay.Delay, before map[int64]owedRow) {
	owed := map[int64][]string{}
	for _, d := range delays {
		if d.Share == nil {
			continue
		}
		was, joined := owed[d.ID]
		there := ""
		if !joined {
			was, there = before[d.ID].owed, before[d.ID].destination
		}
		owed[d.ID] = outboxlog.Joined(was, there, d.Destination)
	}
	for _, id := range slices.Sorted(maps.Keys(owed)) {
		w.exec(oweDelayed, outboxlog.PackOwed(owed[id]), id)
	}
}

func sharedDelays(delays []relay.Delay) (ids []int64) {
	for _, d := range delays {
		if d.Share != nil {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// passSkip ends a skip when the last destination has passed the event.
func (w *flushing) passSkip(s *relay.Skip) {
	switch over, beside := outboxlog.IsOver(s.Share); {
	case over && beside:
		w.exec(passSkipOfLast, w.now, s.EventID, s.ID, s.ID, s.ID)
	case over:
		w.exec(passSkip, w.now, s.EventID)
	}
}

// dropHeld takes out of outcomes those of rows that another of their destinations
// has in a side table. events are those rows, and the ids of their events.
func (w *flushing) dropHeld(all map[int64]outcomeOf, events map[int64]string) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(events)), rowsAtOnce) {
		var names []any
		for _, id := range some {
			names = append(names, events[id])
		}
		ids := plainList(some)
		query := fmt.Sprintf(stillHeld, ids, strings.TrimPrefix(strings.Repeat(",?", len(names)), ","))
		var id int64
		if w.err == nil {
			w.err = each(w.ctx, w.tx, []any{&id}, func() { delete(all, id) }, query, names...)
		}
	}
}
