package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
	"github.com/settlemq/settle/store/halflog"
)

// maxActs bounds how many dead letters one transaction changes: everybody else
// waits for it.
const maxActs = 500

// deadLetter is what an act must know of a dead letter.
type deadLetter struct {
	id          int64
	relay       bool
	foreign     bool // of a consumer that is not ours
	half        bool // of an event that went as a half message
	group       string
	eventID     string
	destination string
	outboxID    int64
	aggregate   consumelog.SeqKey
	seq         int64
	class       settle.Class
	state       string
	kept        bool // its record is here
	status      string
}

func (d *deadLetter) target() string {
	if d.relay {
		return "relay:" + d.eventID
	}
	if d.half {
		return halflog.Side + ":" + d.eventID
	}
	if d.foreign { // an event may die there more than once
		return fmt.Sprintf("%s:%s#%d", d.group, d.eventID, d.id)
	}
	return d.group + ":" + d.eventID
}

const readLetter = `SELECT d.service_side = 'relay', d.service_side = 'bridge', d.service_side = 'txmsg', d.consumer_group, d.event_id, d.destination, d.outbox_id, d.aggregate_type, d.aggregate_id, d.aggregate_seq,
d.class, d.state, coalesce(length(d.raw), 0) > 0, coalesce(l.status, '')
FROM t_dead_letter d LEFT JOIN t_message_consume_log l ON l.consumer_group = d.consumer_group AND l.event_id = d.event_id WHERE d.id = ?`

// change does something to a dead letter, or returns why not.
type change func(tx *sql.Tx, now time.Time, d *deadLetter) (why string, err error)

// acts changes dead letters and audits each, many in one transaction. On an
// error the outcomes are those of the transactions before it.
func (g *Governance) acts(ctx context.Context, a govern.Act, action string, ids []int64, f change) ([]govern.Outcome, error) {
	outcomes := make([]govern.Outcome, 0, len(ids))
	for some := range slices.Chunk(ids, maxActs) {
		var done []govern.Outcome
		err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) error {
			for _, id := range some {
				o, err := g.change(ctx, tx, now, a, action, id, f)
				if err != nil {
					return fmt.Errorf("dead letter %d: %w", id, err)
				}
				done = append(done, o)
			}
			g.s.crash("replay.before_commit")
			// Crash here: nothing of this transaction was done, and nothing is audited.
			return nil
		})
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, done...)
		g.s.crash("replay.after_commit")
	}
	return outcomes, nil
}

func (g *Governance) change(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, action string, id int64, f change) (govern.Outcome, error) {
	o := govern.Outcome{ID: id, Result: "refused"}
	d := deadLetter{id: id}
	err := tx.QueryRowContext(ctx, readLetter, id).Scan(&d.relay, &d.foreign, &d.half, &d.group, &d.eventID, &d.destination, &d.outboxID,
		&d.aggregate.AggregateType, &d.aggregate.AggregateID, &d.seq, &d.class, &d.state, &d.kept, &d.status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		o.Why = "there is no such dead letter"
		return o, nil
	case err != nil:
		return o, err
	case d.state != govern.StateOpen:
		o.Why = "it is " + d.state + ", not " + govern.StateOpen
		return o, nil
	}
	if o.Why, err = f(tx, now, &d); err != nil || o.Why != "" {
		return o, err
	}
	o.Result = "done"
	return o, audit(ctx, tx, now, a, action, d.target())
}

// Replay implements govern.DeadLetters.
func (g *Governance) Replay(ctx context.Context, a govern.Act, o govern.ReplayOptions, ids ...int64) ([]govern.Outcome, error) {
	return g.acts(ctx, a, "dlq.replay", ids, func(tx *sql.Tx, now time.Time, d *deadLetter) (string, error) {
		switch {
		case d.foreign:
			return replayForeign(ctx, tx, now, a, o, d)
		case o.To != "":
			return bridgelog.NotForeign, nil
		case d.half:
			return replayHalf(ctx, tx, now, a, d)
		case d.relay:
			return g.replayPublish(ctx, tx, now, a, d)
		}
		return replayConsume(ctx, tx, now, a, o, d)
	})
}

const reviveRetry = `UPDATE t_consume_retry SET state = 'PARKED', attempts = 0, next_at = ?, parked_at = ?, replays = replays + 1,
accept_duplicate = max(accept_duplicate, ?), compensate = ?, class = CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END
WHERE consumer_group = ? AND event_id = ?`

const remakeRetry = `INSERT INTO t_consume_retry
(consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, compensate, replays, parked_at, topic, partition, offset, position, recorded_at, record_key, raw, headers)
SELECT consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, 'PARKED', 0, 0,
 ?1, CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END, reason, ?2, ?4, 1, ?1, topic, partition, offset, position, recorded_at, record_key, raw, headers
FROM t_dead_letter WHERE id = ?3`

const parkLog = `UPDATE t_message_consume_log SET status = 'PARKED' WHERE consumer_group = ? AND event_id = ?`

const beginAgain = `UPDATE t_dead_letter SET state = ?, acted_by = ? WHERE id = ?`

// A compensation that was tried and failed may all the same be carried out
// later, by an outside system that has only not answered.
const triedToCompensate = `SELECT EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ? AND event_id = ? AND compensate IS NOT NULL AND attempts > 0)`

func replayConsume(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, o govern.ReplayOptions, d *deadLetter) (string, error) {
	var tried bool
	if err := tx.QueryRowContext(ctx, triedToCompensate, d.group, d.eventID).Scan(&tried); err != nil {
		return "", err
	}
	switch {
	case o.AcceptPossibleDuplicate:
	case d.class == settle.ClassBeyondWindow:
		return "it is older than what the group remembers and may have been applied already; accept a possible duplicate to replay it", nil
	case tried:
		return "its compensation was tried and may be carried out yet; compensate it again, or accept a possible duplicate to replay it", nil
	}
	return revive(ctx, tx, now, d, revival{state: govern.StateReplaying, by: a.By, accept: o.AcceptPossibleDuplicate})
}

// Compensate implements govern.DeadLetters. That an event may have been applied
// already is no reason against it: a compensation undoes what may have happened.
func (g *Governance) Compensate(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if a.Reason == "" {
		return nil, errors.New("compensate dead letters: a reason is required")
	}
	return g.acts(ctx, a, "dlq.compensate", ids, func(tx *sql.Tx, now time.Time, d *deadLetter) (string, error) {
		if d.foreign {
			return bridgelog.NoCompensation, nil
		}
		if d.half {
			return halflog.NotCompensated, nil
		}
		if d.relay {
			return "it was never published, so no group has anything of it to undo; replay it, or discard it", nil
		}
		wish := "by " + a.By + ": " + a.Reason
		return revive(ctx, tx, now, d, revival{state: govern.StateCompensating, by: a.By, compensate: wish})
	})
}

// revival is how an event becomes due again.
type revival struct {
	state, by string
	// compensate is by whom and why it is given up; "": it is to be handled.
	compensate string
	accept     bool // though it may be a duplicate
}

// revive makes the event due again, from its first attempt. One that holds its
// key does so in its old place; one that nothing waits for waits for nothing
// either. The consumer that is done with it closes the dead letter.
func revive(ctx context.Context, tx *sql.Tx, now time.Time, d *deadLetter, r revival) (string, error) {
	switch {
	case d.class == settle.ClassDecode:
		return "its record can't be understood: publish what it should have said, and discard it", nil
	case consumelog.Final(d.status):
		return "the group's log says that the event is " + d.status, nil
	case !d.kept:
		return "its record was not kept", nil
	}
	compensate := text(r.compensate)
	found, err := affected(tx.ExecContext(ctx, reviveRetry, now.UnixMicro(), now.UnixMicro(), r.accept, compensate, d.group, d.eventID))
	if err != nil {
		return "", err
	}
	if !found {
		if _, err := tx.ExecContext(ctx, remakeRetry, now.UnixMicro(), r.accept, d.id, compensate); err != nil {
			return "", err
		}
	}
	if _, err := tx.ExecContext(ctx, parkLog, d.group, d.eventID); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, beginAgain, r.state, r.by, d.id)
	return "", err
}

// Discard implements govern.DeadLetters.
func (g *Governance) Discard(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if a.Reason == "" {
		return nil, errors.New("discard dead letters: a reason is required")
	}
	return g.acts(ctx, a, "dlq.discard", ids, func(tx *sql.Tx, now time.Time, d *deadLetter) (string, error) {
		var err error
		switch {
		case d.foreign: // nothing of ours waits for it
		case d.half:
			_, err = tx.ExecContext(ctx, discardHalf, now.UnixMicro(), d.destination)
		case d.relay:
			err = g.discardPublish(ctx, tx, d)
		default:
			err = discardConsume(ctx, tx, now, a, d)
		}
		if err != nil {
			return "", err
		}
		_, err = tx.ExecContext(ctx, endDiscarded, now.UnixMicro(), a.By, d.id)
		return "", err
	})
}

const endDiscarded = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = ?, closed_by = ? WHERE id = ?`

const discardRetry = `DELETE FROM t_consume_retry WHERE consumer_group = ? AND event_id = ?`

const discardLog = `UPDATE t_message_consume_log SET status = 'DISCARDED', reason = ?, processed_at = ? WHERE consumer_group = ? AND event_id = ?`

const passSeq = `UPDATE t_consume_seq SET last_seq = ?1 WHERE consumer_group = ?2 AND aggregate_type = ?3 AND aggregate_id = ?4 AND last_seq = ?1 - 1`

// discardConsume lets go what waits behind the event, and passes its place in
// the producer's count. Whether the group follows that count is not known
// here, so the first row by either order becomes due; a row that was looked at
// too early just waits on.
func discardConsume(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, d *deadLetter) error {
	if _, err := tx.ExecContext(ctx, discardRetry, d.group, d.eventID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, discardLog, a.Reason, now.UnixMicro(), d.group, d.eventID); err != nil {
		return err
	}
	if d.seq > 0 {
		if _, err := tx.ExecContext(ctx, passSeq, d.seq, d.group, d.aggregate.AggregateType, d.aggregate.AggregateID); err != nil {
			return err
		}
		if err := promote(ctx, tx, d.group, d.aggregate.AggregateID, true, now); err != nil {
			return err
		}
	}
	return promote(ctx, tx, d.group, d.aggregate.AggregateID, false, now)
}
