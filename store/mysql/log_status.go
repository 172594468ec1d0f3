package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/outboxlog"
)

// statusSweep are the statements that look, in an adopted table, for rows that
// wait although the relay has passed them, and for the traces of another relay.
type statusSweep struct{ waiting, strays, foreign, taken string }

const (
	// To read it by id would be to read the whole table where few rows wait,
	// which the sum keeps the server from.
	findWaiting = `SELECT e.id, %[3]s FROM %[1]s e WHERE e.status IN (%[2]s) AND e.id > ? AND e.id <= ? ORDER BY e.id + 0 LIMIT ?`

	// Of a row that waits though it was passed: whether it was read as a log, and
	// so sent, whether somebody has decided that it is not to be, and whether it
	// was set back by a program that has tried to send it.
	judgeStrays = `SELECT e.id, e.event_id, e.id > (SELECT high_id FROM settle_adoption),
 EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = (e.event_id) AND d.outbox_id = e.id AND d.state IN ('OPEN', 'REPLAYING', 'DISCARDED'))
  OR EXISTS (SELECT 1 FROM settle_skip k WHERE k.event_id = (e.event_id)), coalesce(%[2]s, false)
FROM t_outbox_event e STRAIGHT_JOIN %[1]s t ON t.id = e.id WHERE e.id IN () ORDER BY e.id`

	// Rows that our log has not seen, and that are sent or in somebody's hand.
	findForeign = `SELECT coalesce(sum(w.other), 0), coalesce(max(IF(w.other, w.id, 0)), 0)
FROM (SELECT e.id, coalesce(e.status IN (%[2]s), false) AS other FROM %[1]s e FORCE INDEX (PRIMARY) WHERE e.id > ? AND (%%s) ORDER BY e.id LIMIT ?) w`

	foreignState = `SELECT foreign_id, coalesce(foreign_seen_at > ?, false) FROM settle_adoption`
	gapsAbove    = `SELECT first_id, last_id FROM t_outbox_gap WHERE last_id > ? ORDER BY first_id LIMIT 1000`

	// What the lanes have seen that have ended, their last checkpoints tell.
	seenBefore = `SELECT coalesce(max(r.id), 0) FROM t_outbox_checkpoint c, JSON_TABLE(c.readers, '$[*]' COLUMNS (id BIGINT PATH '$.cursor')) r
WHERE c.lane < (SELECT min(lane) FROM v_outbox_lane)`

	// A row that another relay has taken meanwhile is not sent by ours.
	findTaken = `SELECT x.id FROM (SELECT id FROM t_outbox_extra WHERE message_id = '' ORDER BY id LIMIT ?) x STRAIGHT_JOIN %[1]s e ON e.id = x.id WHERE NOT coalesce(e.status IN (%[2]s), false)`

	notedAmong = `SELECT id FROM t_outbox_projection WHERE id IN ()`
)

const (
	// statusLook is how many rows that wait one sweep looks at, and how many that
	// another relay may have sent.
	statusLook = 20_000
	// foreignLately is for how long another relay counts as running after its
	// last trace.
	foreignLately = 15 * time.Minute
)

func newStatusSweep(a *adoption) statusSweep {
	waits := a.words(migrate.StatusPending, migrate.StatusRetry)
	return statusSweep{
		waiting: fmt.Sprintf(findWaiting, a.table(), waits, a.topic()),
		strays:  fmt.Sprintf(judgeStrays, a.table(), a.tried()),
		foreign: fmt.Sprintf(findForeign, a.table(), a.words(migrate.StatusSent, migrate.StatusInFlight)),
		taken:   fmt.Sprintf(findTaken, a.table(), waits),
	}
}

// stray is a row that waits although the relay has passed it.
type stray struct {
	id      int64
	eventID string
	// sent is whether the relay has sent it, given up whether somebody has
	// decided that it is not to be, tried whether it was set back by a program
	// that has tried to send it.
	sent, givenUp, tried bool
}

// tried returns the expression that tells a row t which a program has saved
// after it could not send it: an attempt is counted, and the next one lies
// behind the change. A person who sets a status back leaves one of them alone.
func (a *adoption) tried() string {
	if !a.Has("retry_count") || !a.Has("next_retry_time") || baseType(a.Columns["next_retry_time"]) != baseType(a.Columns["updated_at"]) {
		return "false"
	}
	return "t.retry_count > 0 AND t.next_retry_time > t.updated_at"
}

// sweptStatus is what a sweep of the status has found.
type sweptStatus struct {
	listed int
	// again are events that were set back.
	again []string
}

// sweepStatus lists what waits below the cursor. What the relay has not sent is
// late. What it has sent was set back by a person, who asks for it once more, or
// by another relay's program that writes back what it has read earlier: nothing
// is sent again while one of those is at work, and never what it has saved after
// it could not send it.
func (l *Log) sweepStatus(ctx context.Context, tx *sql.Tx, limit int) (found sweptStatus, err error) {
	w := flushing{ctx: ctx, tx: tx, now: l.s.now().UTC()}
	if w.noted(&l.s.project, l.s.adopted, limit); w.err != nil {
		return found, w.err
	}
	lanes, err := positions(ctx, tx)
	if err != nil {
		return found, err
	}
	busy, err := l.sweepForeign(ctx, &w, lanes)
	if err != nil {
		return found, err
	}
	// Without an index the whole table would be read every time.
	if err := l.dropTaken(ctx, &w, limit); err != nil || !l.s.adopted.StatusIndex {
		return found, err
	}
	strays, err := l.strays(ctx, tx, lanes, limit)
	if err != nil {
		return found, err
	}
	var late []int64
	for _, s := range strays {
		switch {
		case s.givenUp || s.sent && (busy || s.tried):
		case s.sent:
			found.again = append(found.again, s.eventID)
		default:
			late = append(late, s.id)
		}
	}
	found.listed = w.late(late)
	return found, w.err
}

// sweepForeign looks for rows that our log has not seen and that are sent or
// taken, and reports whether another relay is at work. A lane has not seen what
// another, or one that has ended, has sent: of several all is seen up to the
// cursor of the foremost, and of those before them too.
func (l *Log) sweepForeign(ctx context.Context, w *flushing, lanes [][]relay.Reader) (busy bool, err error) {
	var from, seen int64
	if err := w.tx.QueryRowContext(ctx, foreignState, w.now.Add(-foreignLately)).Scan(&from, &busy); err != nil {
		return false, err
	}
	if err := w.tx.QueryRowContext(ctx, seenBefore).Scan(&seen); err != nil {
		return false, err
	}
	from = max(from, seen)
	runs := []outboxlog.Run{{foremost(lanes) + 1, 1<<63 - 1}}
	if len(lanes) == 1 {
		cold, err := gaps(ctx, w.tx, gapsAbove, from)
		if err != nil {
			return false, err
		}
		runs = append(runs, cold...)
		for _, r := range lanes[0] {
			open := outboxlog.Runs(r.Open)
			runs = append(runs, open[:min(len(open), rangesAtOnce)]...)
		}
	}
	var rows, last int64
	for some := range slices.Chunk(runs, rangesAtOnce) {
		var n, id int64
		if err := w.tx.QueryRowContext(ctx, fmt.Sprintf(l.s.status.foreign, between(some)), from, statusLook).Scan(&n, &id); err != nil {
			return false, err
		}
		rows, last = rows+n, max(last, id)
	}
	if rows > 0 && len(lanes) > 1 {
		// Each statement sees what is committed: another lane may have sent them
		// since its position was read, and then it has come past them.
		if lanes, err = positions(ctx, w.tx); err != nil {
			return false, err
		}
		if last <= foremost(lanes) {
			rows = 0
		}
	}
	if rows > 0 {
		w.exec(alsoTaken, last, rows, w.now)
	}
	return busy || rows > 0, w.err
}

// foremost is the highest cursor of all lanes.
func foremost(lanes [][]relay.Reader) (highest int64) {
	for _, readers := range lanes {
		for _, r := range readers {
			highest = max(highest, r.Cursor)
		}
	}
	return highest
}

func (l *Log) dropTaken(ctx context.Context, w *flushing, limit int) error {
	var taken []int64
	var id int64
	if err := each(ctx, w.tx, []any{&id}, func() { taken = append(taken, id) }, l.s.status.taken, limit); err != nil {
		return err
	}
	if len(taken) > 0 {
		w.exec(fmt.Sprintf(dropExtra, plainList(taken)))
	}
	return w.err
}

// strays returns rows that wait although all lanes have passed them: at or below
// the cursor that serves their topic, not open there, and in no side table. It
// goes on behind them at the next call.
func (l *Log) strays(ctx context.Context, tx *sql.Tx, lanes [][]relay.Reader, limit int) ([]stray, error) {
	var waiting []retainable
	var row retainable
	var topic stringColumn
	err := each(ctx, tx, []any{&row.id, &topic}, func() {
		row.topic = topic.string
		waiting = append(waiting, row)
	}, l.s.status.waiting, l.statusFrom, foremost(lanes), statusLook)
	if err != nil || len(waiting) == 0 {
		l.statusFrom = 0
		return nil, err
	}
	loose, err := l.loose(ctx, tx, waiting, lanes)
	if err != nil {
		return nil, err
	}
	switch {
	case len(loose) > limit:
		loose = loose[:limit]
		l.statusFrom = loose[limit-1]
	case len(waiting) >= statusLook:
		l.statusFrom = waiting[len(waiting)-1].id
	default:
		l.statusFrom = 0
	}
	return l.judge(ctx, tx, loose)
}

// loose leaves, of rows that wait, those that every lane is done with.
func (l *Log) loose(ctx context.Context, tx *sql.Tx, waiting []retainable, lanes [][]relay.Reader) ([]int64, error) {
	done, err := sentOnly(ctx, tx, waiting, lanes)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(done))
	for i := range done {
		ids[i] = done[i].(int64)
	}
	noted := map[int64]bool{}
	var id int64
	for some := range slices.Chunk(ids, rowsAtOnce) {
		if err := each(ctx, tx, []any{&id}, func() { noted[id] = true }, ofRows(notedAmong, some)); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(ids, func(id int64) bool { return noted[id] }), nil
}

func (l *Log) judge(ctx context.Context, tx *sql.Tx, ids []int64) (all []stray, err error) {
	var s stray
	for some := range slices.Chunk(ids, rowsAtOnce) {
		err := each(ctx, tx, []any{&s.id, &s.eventID, &s.sent, &s.givenUp, &s.tried}, func() { all = append(all, s) }, ofRows(l.s.reading(l.s.status.strays), some))
		if err != nil {
			return nil, err
		}
	}
	sent := map[int64]bool{}
	err = eachSent(ctx, tx, ids, func(r sentRow) { sent[r.id] = true })
	for i := range all {
		all[i].sent = all[i].sent || sent[all[i].id]
	}
	return all, err
}

// resend asks for events whose status was set back, as a person would.
func (l *Log) resend(ctx context.Context, eventIDs []string) error {
	if len(eventIDs) == 0 {
		return nil
	}
	why := "its status in " + l.s.adopted.plainName() + " was set back to " + strings.Join(l.s.adopted.Status[migrate.StatusPending], ", ")
	_, err := l.s.Governance().Resend(ctx, govern.Act{By: statusActor, Reason: why}, eventIDs...)
	return err
}

// statusActor is whom the audit names for what was asked for in the table itself.
const statusActor = "status column"
