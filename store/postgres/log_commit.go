package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Commit implements relay.Store. The flush is one message to the server, and
// one transaction there.
func (l *Log) Commit(ctx context.Context, lease relay.Lease, f relay.Flush) error {
	now := l.s.now()
	err := l.send(ctx, lease, func(b *pgx.Batch) {
		queueCheckpoint(b, lease, &f, now)
		w := flushing{b: b, now: now.UTC()}
		w.flush(&f)
		if l.s.adopted != nil && l.s.adopted.Project {
			l.s.project.queue(b, &f, now.UTC())
		}
	})
	if err != nil {
		return fmt.Errorf("commit checkpoint %d: %w", f.Checkpoint.Number, err)
	}
	return nil
}

const addCheckpoint = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, first_id, last_id, sent, created_at) VALUES ($1,$2,$3,$4,$5,$6,$7,$8)`

func queueCheckpoint(b *pgx.Batch, lease relay.Lease, f *relay.Flush, now time.Time) {
	var first, last, sent any
	if len(f.Sent) > 0 {
		low, high, packed := outboxlog.PackSentByTopic(f.Sent, now)
		first, last, sent = low, high, packed
	}
	b.Queue(addCheckpoint, lease.Lane, lease.Epoch, f.Checkpoint.Number, outboxlog.PackReaders(f.Checkpoint.Readers), first, last, sent, now.UTC())
}

// flushing puts into a batch what the relay wants written, in the order of the
// flush's fields. Of an event, the dead letter is changed before the parked
// row, as people's acts do: in another order the two could wait for each other.
type flushing struct {
	b   *pgx.Batch
	now time.Time
}

func (w *flushing) flush(f *relay.Flush) {
	for i := range f.Sent {
		w.sent(&f.Sent[i])
	}
	for i := range f.Park {
		w.park(&f.Park[i])
	}
	for i := range f.Attempts {
		w.attempt(&f.Attempts[i])
	}
	for i := range f.Dead {
		w.die(&f.Dead[i])
	}
	for i := range f.Delay {
		w.delay(&f.Delay[i])
	}
	w.cold(f.Cold)
	for i := range f.Skip {
		w.skip(&f.Skip[i])
	}
}

const (
	dropParkedRow = `DELETE FROM t_outbox_parked WHERE id = $1 AND destination = $2`
	dropDelayed   = `DELETE FROM t_outbox_delayed WHERE id = $1`
	dropExtra     = `DELETE FROM t_outbox_extra WHERE id = $1`
)

// leave takes a row out of the side table that it came from.
func (w *flushing) leave(from relay.Origin, id int64, destination string, share *relay.Share) {
	switch {
	case from == relay.FromParked:
		w.b.Queue(dropParkedRow, id, destination)
	case outboxlog.LeavesShare(from, share):
		w.leaveShare(from, id, destination, share)
	case from == relay.FromDelayed:
		w.b.Queue(dropDelayed, id)
	case from == relay.FromExtra:
		w.b.Queue(dropExtra, id)
	}
}

const endReplay = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = $1, closed_by = acted_by
WHERE consumer_group = '' AND event_id = $2 AND destination = $3 AND state = 'REPLAYING'`

func (w *flushing) sent(s *relay.Sent) {
	if s.From == relay.FromParked {
		w.b.Queue(endReplay, w.now, s.EventID, s.Destination)
	}
	w.leave(s.From, s.ID, s.Destination, s.Share)
}

const addParked = `INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, message_id, attempts, next_at, class, cause, suspect, parked_at)
VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)
ON CONFLICT (id, destination) DO UPDATE SET message_id = excluded.message_id, attempts = excluded.attempts, next_at = excluded.next_at,
 class = excluded.class, cause = excluded.cause, suspect = excluded.suspect`

func (w *flushing) park(p *relay.Park) {
	if p.From != relay.FromParked {
		w.leave(p.From, p.ID, p.Destination, p.Share)
	}
	w.b.Queue(addParked, p.Destination, p.Key, p.ID, p.EventID, p.EventType, p.MessageID, p.Attempts, timeOrNull(p.NextAt), string(p.Class), clean(p.Cause), p.Suspect, w.now)
}

const setAttempt = `UPDATE t_outbox_parked SET attempts = $1, next_at = $2, class = $3, cause = $4, suspect = $5, tried_together = $6 WHERE id = $7 AND destination = $8`

func (w *flushing) attempt(a *relay.Attempt) {
	w.b.Queue(setAttempt, a.Attempts, timeOrNull(a.NextAt), string(a.Class), clean(a.Cause), a.Suspect, a.Together, a.ID, a.Destination)
}

const (
	setDead = `UPDATE t_outbox_parked SET dead = true, attempts = $1, class = $2, cause = $3, next_at = NULL WHERE id = $4 AND destination = $5`

	// An event that died before is opened again: nothing of it was solved.
	openRelayLetter = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_type, aggregate_id,
 aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking, opened_at, due_at, topic, appended_at, record_key, payload, headers)
SELECT 'relay', '', p.event_id, p.destination, p.id, p.event_type, coalesce(e.aggregate_type, ''), p.aggregate_id, coalesce(e.aggregate_seq, 0),
 coalesce(e.biz_key, p.aggregate_id), coalesce(e.trace_id, ''), $3, $4, $5, 'OPEN', $6, $7, $8, p.destination, e.appended_at, convert_to(p.aggregate_id, 'UTF8'),
 e.payload, convert_to(coalesce(e.headers, '{}')::text, 'UTF8')
FROM t_outbox_parked p LEFT JOIN settle_outbox_row() e ON e.id = p.id WHERE p.id = $1 AND p.destination = $2
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
 state = 'OPEN', blocking = excluded.blocking, opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`
)

// relayLetterDue is how long a person has to decide about a dead letter of the relay.
const relayLetterDue = 24 * time.Hour

func (w *flushing) die(d *relay.Death) {
	w.b.Queue(openRelayLetter, d.ID, d.Destination, string(d.Class), clean(d.Cause), d.Attempts, !d.Unblock, w.now, w.now.Add(relayLetterDue))
	w.b.Queue(setDead, d.Attempts, string(d.Class), clean(d.Cause), d.ID, d.Destination)
	if d.Unblock {
		w.b.Queue(dropParkedRow, d.ID, d.Destination)
	}
}

const addDelayed = `INSERT INTO t_outbox_delayed (id, event_id, destination, aggregate_id, due_at) VALUES ($1,$2,$3,$4,$5)
ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at`

func (w *flushing) delay(d *relay.Delay) {
	w.leave(d.From, d.ID, d.Destination, d.Share)
	add := addDelayed
	if d.Share != nil {
		add = joinDelayed
	}
	w.b.Queue(add, d.ID, d.EventID, d.Destination, d.Key, d.Due.UTC())
}

const addGaps = `INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT first_id, last_id, $3 FROM unnest($1::bigint[], $2::bigint[]) AS run(first_id, last_id)
ON CONFLICT (first_id) DO UPDATE SET last_id = greatest(t_outbox_gap.last_id, excluded.last_id)`

func (w *flushing) cold(ids []int64) {
	if len(ids) == 0 {
		return
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var first, last []int64
	for _, r := range outboxlog.Runs(ids) {
		first, last = append(first, r[0]), append(last, r[1])
	}
	w.b.Queue(addGaps, first, last, w.now)
}

const (
	passSkip = `UPDATE settle_skip SET passed_at = $1 WHERE event_id = $2`

	discardLetter = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = $1, closed_by = coalesce((SELECT created_by FROM settle_skip WHERE event_id = $2), '')
WHERE consumer_group = '' AND event_id = $2 AND destination = $3 AND state IN ('OPEN', 'REPLAYING')`
)

func (w *flushing) skip(s *relay.Skip) {
	if s.From == relay.FromParked {
		w.b.Queue(discardLetter, w.now, s.EventID, s.Destination)
	}
	w.leave(s.From, s.ID, s.Destination, s.Share)
	w.passSkip(s)
}
