package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Commit implements relay.Store. A flush that says nothing but where the relay
// stands is one statement; one that touches side tables is a transaction whose
// last statement that is.
func (l *Log) Commit(ctx context.Context, lease relay.Lease, f relay.Flush) error {
	if err := l.commit(ctx, lease, &f); err != nil {
		l.s.left(err)
		return fmt.Errorf("commit checkpoint %d: %w", f.Checkpoint.Number, explain(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range f.Cold {
		l.missing.Remove(id)
	}
	return nil
}

func (l *Log) commit(ctx context.Context, lease relay.Lease, f *relay.Flush) error {
	now := l.s.now().UTC()
	if !beside(f) && (len(f.Sent) == 0 || !l.s.adopted.sweepable()) {
		return l.checkpoint(ctx, l.s.own, lease, f, now)
	}
	tx, err := l.s.own.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	w := flushing{ctx: ctx, tx: tx, now: now}
	if w.flush(f); l.s.adopted.sweepable() {
		w.project(&l.s.project, l.s.adopted, f)
	}
	if w.err != nil {
		return w.err
	}
	if err := l.checkpoint(ctx, tx, lease, f, now); err != nil {
		return err
	}
	return tx.Commit()
}

// beside reports whether a flush writes more than the checkpoint.
func beside(f *relay.Flush) bool {
	fromSide := func(s relay.Sent) bool { return s.From != relay.FromLog }
	return len(f.Park)+len(f.Attempts)+len(f.Dead)+len(f.Delay)+len(f.Cold)+len(f.Skip) > 0 || slices.ContainsFunc(f.Sent, fromSide)
}

// addCheckpoint is the fence too: it finds the present leader's lease, of the
// run of the server that the leader has loaded from, and holds it for share.
const addCheckpoint = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, first_id, last_id, sent, created_at)
SELECT lane, epoch, ?, ?, ?, ?, ?, ? FROM t_outbox_lease
WHERE lane = ? AND owner = ? AND epoch = ? AND NOT clean AND (? = '' OR @settle_run = ?) LOCK IN SHARE MODE`

func (l *Log) checkpoint(ctx context.Context, db querier, lease relay.Lease, f *relay.Flush, now time.Time) error {
	readers := outboxlog.PackReadersInRuns(f.Checkpoint.Readers)
	var first, last, sent any
	if len(f.Sent) > 0 {
		first, last, sent = packSent(f.Sent, now)
	}
	run := l.serverRun()
	n, err := affected(db.ExecContext(ctx, addCheckpoint, f.Checkpoint.Number, readers, first, last, sent, now,
		lease.Lane, lease.Owner, leaderEpoch(lease), run, run))
	if err == nil && n == 0 {
		err = settle.ErrFenced
	}
	return err
}

func packSent(sent []relay.Sent, now time.Time) (first, last, packed any) {
	return outboxlog.PackSent(sent, now)
}

// flushing writes what the relay wants written, in the order of the flush's
// fields. Of an event, the dead letter is changed before the parked row, as
// people's acts do: in another order the two could wait for each other. After
// an error it does nothing more.
type flushing struct {
	ctx context.Context
	tx  *sql.Tx
	now time.Time
	err error
}

func (w *flushing) exec(query string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, query, args...)
	}
}

func (w *flushing) flush(f *relay.Flush) {
	w.leaveShares(f)
	w.sent(f.Sent)
	w.park(f.Park)
	w.attempts(f.Attempts)
	for i := range f.Dead {
		w.die(&f.Dead[i])
	}
	w.delay(f.Delay)
	w.cold(f.Cold)
	for i := range f.Skip {
		w.skip(&f.Skip[i])
	}
}

const (
	dropParkedRows = `DELETE FROM t_outbox_parked WHERE id IN (%s) AND (id, destination) IN (%s)`
	dropDelayed    = `DELETE FROM t_outbox_delayed WHERE id IN (%s)`
	dropExtra      = `DELETE FROM t_outbox_extra WHERE id IN (%s)`
)

// place is a row in a side table.
type place struct {
	from        relay.Origin
	id          int64
	destination string
}

// placeOf is where a row leaves a side table that it was in for one destination;
// see leaveShares for others.
func placeOf(from relay.Origin, id int64, destination string, share *relay.Share) []place {
	if from == relay.FromLog || outboxlog.LeavesShare(from, share) {
		return nil
	}
	return []place{{from, id, destination}}
}

// leave takes rows out of the side tables that they come from.
func (w *flushing) leave(rows []place) {
	for some := range slices.Chunk(rows, rowsAtOnce) {
		var delayed, extra, parked, pairs []any
		for _, r := range some {
			switch r.from {
			case relay.FromParked:
				parked, pairs = append(parked, r.id), append(pairs, r.id, r.destination)
			case relay.FromDelayed:
				delayed = append(delayed, r.id)
			case relay.FromExtra:
				extra = append(extra, r.id)
			case relay.FromLog:
			}
		}
		if n := len(parked); n > 0 {
			w.exec(fmt.Sprintf(dropParkedRows, times(n, "?"), times(n, "(?,?)")), append(parked, pairs...)...)
		}
		if n := len(delayed); n > 0 {
			w.exec(fmt.Sprintf(dropDelayed, times(n, "?")), delayed...)
		}
		if n := len(extra); n > 0 {
			w.exec(fmt.Sprintf(dropExtra, times(n, "?")), extra...)
		}
	}
}

const endReplays = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ?, closed_by = acted_by
WHERE consumer_group = '' AND event_id IN (%s) AND (event_id, destination) IN (%s) AND state = 'REPLAYING'`

func (w *flushing) sent(sent []relay.Sent) {
	var rows []place
	var replayed []relay.Sent
	for _, s := range sent {
		rows = append(rows, placeOf(s.From, s.ID, s.Destination, s.Share)...)
		if s.From == relay.FromParked {
			replayed = append(replayed, s)
		}
	}
	for some := range slices.Chunk(replayed, rowsAtOnce) {
		args, pairs := []any{w.now}, []any{}
		for _, s := range some {
			args, pairs = append(args, s.EventID), append(pairs, s.EventID, s.Destination)
		}
		w.exec(fmt.Sprintf(endReplays, times(len(some), "?"), times(len(some), "(?,?)")), append(args, pairs...)...)
	}
	w.leave(rows)
}

const (
	addParked = `INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, message_id, attempts, next_at, class, cause, suspect, parked_at)
VALUES %s ON DUPLICATE KEY UPDATE message_id = VALUES(message_id), attempts = VALUES(attempts), next_at = VALUES(next_at),
 class = VALUES(class), cause = VALUES(cause), suspect = VALUES(suspect)`
	oneParked = `(?,?,?,?,?,?,?,?,?,?,?,?)`
)

func (w *flushing) park(parks []relay.Park) {
	for some := range slices.Chunk(parks, rowsAtOnce) {
		var rows []place
		var args []any
		for _, p := range some {
			if p.From != relay.FromParked {
				rows = append(rows, placeOf(p.From, p.ID, p.Destination, p.Share)...)
			}
			args = append(args, p.Destination, p.Key, p.ID, p.EventID, p.EventType, p.MessageID, p.Attempts, timeOrNull(p.NextAt), string(p.Class), clean(p.Cause), p.Suspect, w.now)
		}
		w.leave(rows)
		w.exec(fmt.Sprintf(addParked, times(len(some), oneParked)), args...)
	}
}

const setAttempt = `UPDATE t_outbox_parked SET attempts = ?, next_at = ?, class = ?, cause = ?, suspect = ?, tried_together = ? WHERE id = ? AND destination = ?`

func (w *flushing) attempts(all []relay.Attempt) {
	for _, a := range all {
		w.exec(setAttempt, a.Attempts, timeOrNull(a.NextAt), string(a.Class), clean(a.Cause), a.Suspect, a.Together, a.ID, a.Destination)
	}
}

const (
	setDead = `UPDATE t_outbox_parked SET dead = true, attempts = ?, class = ?, cause = ?, next_at = NULL WHERE id = ? AND destination = ?`

	// An event that died before is opened again: nothing of it was solved.
	openRelayLetter = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_type, aggregate_id,
 aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking, opened_at, due_at, topic, appended_at, record_key, payload, headers)
SELECT 'relay', '', p.event_id, p.destination, p.id, p.event_type, coalesce(e.aggregate_type, ''), p.aggregate_id, coalesce(e.aggregate_seq, 0),
 coalesce(e.biz_key, p.aggregate_id), coalesce(e.trace_id, ''), ?, ?, ?, 'OPEN', ?, ?, ?, p.destination, e.appended_at, p.aggregate_id,
 e.payload, coalesce(e.headers, '{}')
FROM t_outbox_parked p LEFT JOIN t_outbox_event e ON e.id = p.id WHERE p.id = ? AND p.destination = ?
ON DUPLICATE KEY UPDATE class = VALUES(class), reason = VALUES(reason), attempts = VALUES(attempts),
 state = 'OPEN', blocking = VALUES(blocking), opened_at = VALUES(opened_at), due_at = VALUES(due_at), closed_at = NULL, closed_by = ''`
)

// relayLetterDue is how long a person has to decide about a dead letter of the relay.
const relayLetterDue = 24 * time.Hour

func (w *flushing) die(d *relay.Death) {
	w.exec(openRelayLetter, string(d.Class), clean(d.Cause), d.Attempts, !d.Unblock, w.now, w.now.Add(relayLetterDue), d.ID, d.Destination)
	w.exec(setDead, d.Attempts, string(d.Class), clean(d.Cause), d.ID, d.Destination)
	if d.Unblock {
		w.leave([]place{{relay.FromParked, d.ID, d.Destination}})
	}
}

const (
	addDelayed = `INSERT INTO t_outbox_delayed (id, event_id, destination, aggregate_id, due_at) VALUES %s
ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)`
	oneDelayed = `(?,?,?,?,?)`
)

func (w *flushing) delay(delays []relay.Delay) {
	before := w.readOwed(delayedOwed, sharedDelays(delays))
	for some := range slices.Chunk(delays, rowsAtOnce) {
		var rows []place
		var args []any
		for _, d := range some {
			rows = append(rows, placeOf(d.From, d.ID, d.Destination, d.Share)...)
			args = append(args, d.ID, d.EventID, d.Destination, d.Key, d.Due.UTC())
		}
		w.leave(rows)
		w.exec(fmt.Sprintf(addDelayed, times(len(some), oneDelayed)), args...)
	}
	w.joinDelayed(delays, before)
}

const (
	addGaps = `INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) VALUES %s
ON DUPLICATE KEY UPDATE last_id = greatest(last_id, VALUES(last_id))`
	oneGap = `(?,?,?)`
)

func (w *flushing) cold(ids []int64) {
	w.gaps(outboxlog.Runs(slices.Compact(slices.Sorted(slices.Values(ids)))))
}

func (w *flushing) gaps(runs []outboxlog.Run) {
	for some := range slices.Chunk(runs, rowsAtOnce) {
		var args []any
		for _, r := range some {
			args = append(args, r[0], r[1], w.now)
		}
		w.exec(fmt.Sprintf(addGaps, times(len(some), oneGap)), args...)
	}
}

const (
	passSkip = `UPDATE settle_skip SET passed_at = ? WHERE event_id = ?`

	discardLetter = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = ?, closed_by = coalesce((SELECT created_by FROM settle_skip WHERE event_id = ?), '')
WHERE consumer_group = '' AND event_id = ? AND destination = ? AND state IN ('OPEN', 'REPLAYING')`
)

func (w *flushing) skip(s *relay.Skip) {
	if s.From == relay.FromParked {
		w.exec(discardLetter, w.now, s.EventID, s.EventID, s.Destination)
	}
	w.leave(placeOf(s.From, s.ID, s.Destination, s.Share))
	w.passSkip(s)
}
