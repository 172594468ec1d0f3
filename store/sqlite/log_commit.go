package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Commit implements relay.Store.
func (l *Log) Commit(ctx context.Context, lease relay.Lease, f relay.Flush) error {
	now := l.s.now()
	err := l.write(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
		if err := insertCheckpoint(ctx, tx, lease, &f, now); err != nil {
			return err
		}
		return flush(ctx, tx, &f, now)
	})
	if err != nil {
		return fmt.Errorf("commit checkpoint %d: %w", f.Checkpoint.Number, err)
	}
	return nil
}

const addCheckpoint = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, first_id, last_id, sent, created_at) VALUES (?,?,?,?,?,?,?,?)`

func insertCheckpoint(ctx context.Context, tx *sql.Tx, lease relay.Lease, f *relay.Flush, now time.Time) error {
	readers, err := json.Marshal(f.Checkpoint.Readers)
	if err != nil {
		return err
	}
	if f.Checkpoint.Readers == nil {
		readers = []byte("[]")
	}
	var first, last, sent any
	if len(f.Sent) > 0 {
		low, high, packed := packSent(f.Sent, now)
		first, last, sent = low, high, packed
	}
	_, err = tx.ExecContext(ctx, addCheckpoint, lease.Lane, lease.Epoch, f.Checkpoint.Number, string(readers), first, last, sent, now.UnixMicro())
	return err
}

// packSent writes where the broker keeps what it acknowledged, by topic, in a
// form that a query can take apart; see v_outbox_sent.
func packSent(sent []relay.Sent, now time.Time) (low, high int64, packed string) {
	low, high = sent[0].ID, sent[0].ID
	var topics []string
	rows := map[string][]byte{}
	at := now.UnixMicro()
	for i := range sent {
		s := &sent[i]
		low, high = min(low, s.ID), max(high, s.ID)
		topic := s.At.Topic
		if topic == "" {
			topic = s.Destination
		}
		b, known := rows[topic]
		if !known {
			topics = append(topics, topic)
			b = make([]byte, 0, 32*len(sent))
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), s.ID, 10)
		b = strconv.AppendInt(append(b, ','), int64(s.At.Partition), 10)
		b = strconv.AppendInt(append(b, ','), s.At.Offset, 10)
		b = strconv.AppendInt(append(b, ','), s.SentAt.UnixMicro()-at, 10)
		rows[topic] = append(b, ']')
	}
	out := []byte{'{'}
	for i, topic := range topics {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(topic)
		if err != nil { // a string always encodes
			continue
		}
		out = append(append(append(out, name...), ':', '['), rows[topic]...)
		out = append(out, ']')
	}
	return low, high, string(append(out, '}'))
}

// flush writes what the relay wants written, in the order of the flush's
// fields.
func flush(ctx context.Context, tx *sql.Tx, f *relay.Flush, now time.Time) error {
	w := flushing{ctx: ctx, tx: tx, now: now.UnixMicro()}
	w.leaveShares(f)
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
	for _, id := range f.Cold {
		w.exec(addGap, id, w.now)
	}
	for i := range f.Skip {
		w.skip(&f.Skip[i])
	}
	return w.err
}

// flushing is one transaction of Commit. After an error it does nothing more.
type flushing struct {
	ctx context.Context
	tx  *sql.Tx
	now int64
	err error
}

func (w *flushing) exec(query string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, query, args...)
	}
}

const (
	dropParkedRow = `DELETE FROM t_outbox_parked WHERE id = ? AND destination = ?`
	dropDelayed   = `DELETE FROM t_outbox_delayed WHERE id = ?`
	dropExtra     = `DELETE FROM t_outbox_extra WHERE id = ?`
)

// leave takes a row out of the side table that it came from; see leaveShares for
// one that is owed to others besides.
func (w *flushing) leave(from relay.Origin, id int64, destination string, share *relay.Share) {
	switch {
	case from == relay.FromParked:
		w.exec(dropParkedRow, id, destination)
	case outboxlog.LeavesShare(from, share):
	case from == relay.FromDelayed:
		w.exec(dropDelayed, id)
	case from == relay.FromExtra:
		w.exec(dropExtra, id)
	}
}

const endReplay = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ?, closed_by = acted_by
WHERE consumer_group = '' AND event_id = ? AND destination = ? AND state = 'REPLAYING'`

func (w *flushing) sent(s *relay.Sent) {
	w.leave(s.From, s.ID, s.Destination, s.Share)
	if s.From == relay.FromParked {
		w.exec(endReplay, w.now, s.EventID, s.Destination)
	}
}

const addParked = `INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, message_id, attempts, next_at, class, cause, suspect, parked_at)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (id, destination) DO UPDATE SET message_id = excluded.message_id, attempts = excluded.attempts, next_at = excluded.next_at,
 class = excluded.class, cause = excluded.cause, suspect = excluded.suspect`

func (w *flushing) park(p *relay.Park) {
	if p.From != relay.FromParked {
		w.leave(p.From, p.ID, p.Destination, p.Share)
	}
	w.exec(addParked, p.Destination, p.Key, p.ID, p.EventID, p.EventType, p.MessageID, p.Attempts, micros(p.NextAt), string(p.Class), p.Cause, p.Suspect, w.now)
}

const setAttempt = `UPDATE t_outbox_parked SET attempts = ?, next_at = ?, class = ?, cause = ?, suspect = ?, tried_together = ? WHERE id = ? AND destination = ?`

func (w *flushing) attempt(a *relay.Attempt) {
	w.exec(setAttempt, a.Attempts, micros(a.NextAt), string(a.Class), a.Cause, a.Suspect, a.Together, a.ID, a.Destination)
}

const (
	setDead = `UPDATE t_outbox_parked SET dead = 1, attempts = ?, class = ?, cause = ?, next_at = NULL WHERE id = ? AND destination = ?`

	// An event that died before is opened again: nothing of it was solved.
	openRelayLetter = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_type, aggregate_id,
 aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking, opened_at, due_at, topic, appended_at, record_key, payload, headers)
SELECT 'relay', '', p.event_id, p.destination, p.id, p.event_type, coalesce(e.aggregate_type, ''), p.aggregate_id, coalesce(e.aggregate_seq, 0),
 coalesce(e.biz_key, p.aggregate_id), coalesce(e.trace_id, ''), ?3, ?4, ?5, 'OPEN', ?6, ?7, ?8, p.destination, e.appended_at, p.aggregate_id,
 CAST(e.payload AS BLOB), coalesce(e.headers, '{}')
FROM t_outbox_parked p LEFT JOIN t_outbox_event e ON e.id = p.id WHERE p.id = ?1 AND p.destination = ?2
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
 state = 'OPEN', blocking = excluded.blocking, opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`
)

func (w *flushing) die(d *relay.Death) {
	w.exec(setDead, d.Attempts, string(d.Class), d.Cause, d.ID, d.Destination)
	w.exec(openRelayLetter, d.ID, d.Destination, string(d.Class), d.Cause, d.Attempts, !d.Unblock, w.now, w.now+letterDue.Microseconds())
	if d.Unblock {
		w.exec(dropParkedRow, d.ID, d.Destination)
	}
}

const (
	addDelayed = `INSERT INTO t_outbox_delayed (id, event_id, destination, aggregate_id, due_at) VALUES (?,?,?,?,?)
ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at`
	addGap   = `INSERT INTO t_outbox_gap (id, recorded_at) VALUES (?,?) ON CONFLICT DO NOTHING`
	passSkip = `UPDATE settle_skip SET passed_at = ? WHERE event_id = ?`

	discardLetter = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = ?1, closed_by = coalesce((SELECT created_by FROM settle_skip WHERE event_id = ?2), '')
WHERE consumer_group = '' AND event_id = ?2 AND destination = ?3 AND state IN ('OPEN', 'REPLAYING')`
)

func (w *flushing) delay(d *relay.Delay) {
	w.leave(d.From, d.ID, d.Destination, d.Share)
	if d.Share != nil {
		w.joinDelayed(d)
		return
	}
	w.exec(addDelayed, d.ID, d.EventID, d.Destination, d.Key, d.Due.UnixMicro())
}

func (w *flushing) skip(s *relay.Skip) {
	w.leave(s.From, s.ID, s.Destination, s.Share)
	w.passSkip(s)
	if s.From == relay.FromParked {
		w.exec(discardLetter, w.now, s.EventID, s.Destination)
	}
}
