package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/store/migrate"
)

// maxActs bounds how many dead letters one transaction changes: other people
// wait for it.
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

const (
	// What is about to come to wait behind the event, or has just begun to deal
	// with it, ends first.
	lockLetterKey = `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || consumer_group || ' ' || aggregate_id, 0))
FROM t_dead_letter WHERE id = $1`

	lockLetter = `SELECT d.service_side = 'relay', d.service_side = 'bridge', d.service_side = 'txmsg', d.consumer_group, d.event_id, d.destination, d.outbox_id, d.aggregate_type, d.aggregate_id, d.aggregate_seq,
d.class, d.state, coalesce(octet_length(d.raw), 0) > 0 FROM t_dead_letter d WHERE d.id = $1 FOR UPDATE`

	lockLetterLog = `SELECT status FROM t_message_consume_log WHERE consumer_group = $1 AND event_id = $2 FOR UPDATE`
)

// change does something to a dead letter, or returns why not.
type change func(d *deed, l *deadLetter) (why string, err error)

// acts changes dead letters and audits each, many in one transaction. On an
// error the outcomes are those of the transactions before it.
func (g *Governance) acts(ctx context.Context, a govern.Act, action string, ids []int64, f change) ([]govern.Outcome, error) {
	outcomes := make([]govern.Outcome, 0, len(ids))
	for some := range slices.Chunk(ids, maxActs) {
		var done []govern.Outcome
		err := g.act(ctx, a, func(d *deed) error {
			done = done[:0]
			for _, id := range some {
				o, err := g.change(ctx, d, action, id, f)
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

func (g *Governance) change(ctx context.Context, d *deed, action string, id int64, f change) (govern.Outcome, error) {
	o := govern.Outcome{ID: id, Result: "refused"}
	l := deadLetter{id: id}
	err := l.lock(ctx, d.tx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		o.Why = "there is no such dead letter"
		return o, nil
	case err != nil:
		return o, err
	case l.state != govern.StateOpen:
		o.Why = "it is " + l.state + ", not " + govern.StateOpen
		return o, nil
	}
	if o.Why, err = f(d, &l); err != nil || o.Why != "" {
		return o, err
	}
	o.Result = "done"
	return o, d.audit(ctx, action, l.target())
}

// lock reads the dead letter and keeps others from changing it.
func (d *deadLetter) lock(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	b.Queue(lockLetterKey, d.id)
	b.Queue(lockLetter, d.id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&d.relay, &d.foreign, &d.half, &d.group, &d.eventID, &d.destination, &d.outboxID,
			&d.aggregate.AggregateType, &d.aggregate.AggregateID, &d.seq, &d.class, &d.state, &d.kept)
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil || d.relay || d.foreign || d.half {
		return err
	}
	err := tx.QueryRow(ctx, lockLetterLog, d.group, d.eventID).Scan(&d.status)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// Replay implements govern.DeadLetters.
func (g *Governance) Replay(ctx context.Context, a govern.Act, o govern.ReplayOptions, ids ...int64) ([]govern.Outcome, error) {
	return g.acts(ctx, a, "dlq.replay", ids, func(d *deed, l *deadLetter) (string, error) {
		switch {
		case l.foreign:
			return replayForeign(ctx, d, l, o)
		case o.To != "":
			return bridgelog.NotForeign, nil
		case l.half:
			return replayHalf(ctx, d, l)
		case l.relay:
			return replayPublish(ctx, d, l)
		}
		return replayConsume(ctx, d, l, o)
	})
}

// A compensation that was tried and failed may all the same be carried out
// later, by an outside system that has only not answered.
const triedToCompensate = `SELECT EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = $1 AND event_id = $2 AND compensate IS NOT NULL AND attempts > 0)`

func replayConsume(ctx context.Context, d *deed, l *deadLetter, o govern.ReplayOptions) (string, error) {
	var tried bool
	if err := d.tx.QueryRow(ctx, triedToCompensate, l.group, l.eventID).Scan(&tried); err != nil {
		return "", err
	}
	switch {
	case o.AcceptPossibleDuplicate:
	case l.class == settle.ClassBeyondWindow:
		return "it is older than what the group remembers and may have been applied already; accept a possible duplicate to replay it", nil
	case tried:
		return "its compensation was tried and may be carried out yet; compensate it again, or accept a possible duplicate to replay it", nil
	}
	return revive(ctx, d, l, revival{state: govern.StateReplaying, accept: o.AcceptPossibleDuplicate})
}

// Compensate implements govern.DeadLetters. That an event may have been applied
// already is no reason against it: a compensation undoes what may have happened.
func (g *Governance) Compensate(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if a.Reason == "" {
		return nil, errors.New("compensate dead letters: a reason is required")
	}
	return g.acts(ctx, a, "dlq.compensate", ids, func(d *deed, l *deadLetter) (string, error) {
		if l.foreign {
			return bridgelog.NoCompensation, nil
		}
		if l.half {
			return halflog.NotCompensated, nil
		}
		if l.relay {
			return "it was never published, so no group has anything of it to undo; replay it, or discard it", nil
		}
		return revive(ctx, d, l, revival{state: govern.StateCompensating, compensate: "by " + d.By + ": " + d.Reason})
	})
}

// revival is how an event becomes due again.
type revival struct {
	state string
	// compensate is by whom and why it is given up; "": it is to be handled.
	compensate string
	accept     bool // though it may be a duplicate
}

const reviveRetry = `UPDATE t_consume_retry SET state = 'PARKED', attempts = 0, next_at = $1, parked_at = $1, replays = replays + 1,
accept_duplicate = accept_duplicate OR $2, compensate = $3, class = CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END
WHERE consumer_group = $4 AND event_id = $5`

const remakeRetry = `INSERT INTO t_consume_retry
(consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, compensate, replays, parked_at, topic, partition, "offset", position, recorded_at, record_key, raw, headers)
SELECT consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, 'PARKED', false, 0,
 $1, CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END, reason, $2, $3, 1, $1, topic, partition, "offset", position, recorded_at, record_key, raw, headers
FROM t_dead_letter WHERE id = $4`

const parkLog = `UPDATE t_message_consume_log SET status = 'PARKED' WHERE consumer_group = $1 AND event_id = $2`

const beginAgain = `UPDATE t_dead_letter SET state = $1, acted_by = $2 WHERE id = $3`

// revive makes the event due again, from its first attempt. One that holds its
// key does so in its old place; one that nothing waits for waits for nothing
// either. The consumer that is done with it closes the dead letter.
func revive(ctx context.Context, d *deed, l *deadLetter, r revival) (string, error) {
	switch {
	case l.class == settle.ClassDecode:
		return "its record can't be understood: publish what it should have said, and discard it", nil
	case consumelog.Final(l.status):
		return "the group's log says that the event is " + l.status, nil
	case !l.kept:
		return "its record was not kept", nil
	}
	compensate := optional(r.compensate)
	tag, err := d.tx.Exec(ctx, reviveRetry, d.now, r.accept, compensate, l.group, l.eventID)
	if err != nil {
		return "", err
	}
	var b pgx.Batch
	if tag.RowsAffected() == 0 {
		b.Queue(remakeRetry, d.now, r.accept, compensate, l.id)
	}
	b.Queue(parkLog, l.group, l.eventID)
	b.Queue(beginAgain, r.state, d.By, l.id)
	return "", d.tx.SendBatch(ctx, &b).Close()
}

// Discard implements govern.DeadLetters.
func (g *Governance) Discard(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if a.Reason == "" {
		return nil, errors.New("discard dead letters: a reason is required")
	}
	return g.acts(ctx, a, "dlq.discard", ids, func(d *deed, l *deadLetter) (string, error) {
		discard := discardConsume
		switch {
		case l.foreign:
			discard = discardForeign
		case l.half:
			discard = discardHalf
		case l.relay:
			discard = discardPublish
		}
		if err := discard(ctx, d, l); err != nil {
			return "", err
		}
		if h := g.s.shared; h != nil && !l.relay && !l.foreign && !l.half {
			if _, err := d.tx.Exec(ctx, h.end, d.now, l.group, l.eventID, h.Word(migrate.ConsumeSuccess)); err != nil {
				return "", err
			}
		}
		_, err := d.tx.Exec(ctx, endDiscarded, d.now, d.By, l.id)
		return "", err
	})
}

const endDiscarded = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = $1, closed_by = $2 WHERE id = $3`

const discardRetry = `DELETE FROM t_consume_retry WHERE consumer_group = $1 AND event_id = $2`

const discardLog = `UPDATE t_message_consume_log SET status = 'DISCARDED', reason = $1, processed_at = $2 WHERE consumer_group = $3 AND event_id = $4`

const passSeq = `UPDATE t_consume_seq SET last_seq = $1 WHERE consumer_group = $2 AND aggregate_type = $3 AND aggregate_id = $4 AND last_seq = $1 - 1`

// discardConsume lets go what waits behind the event, and passes its place in
// the producer's count. Whether the group follows that count is not known
// here, so the first row by either order becomes due; a row that was looked at
// too early just waits on.
func discardConsume(ctx context.Context, d *deed, l *deadLetter) error {
	var b pgx.Batch
	b.Queue(discardRetry, l.group, l.eventID)
	b.Queue(discardLog, d.Reason, d.now, l.group, l.eventID)
	if l.seq > 0 {
		b.Queue(passSeq, l.seq, l.group, l.aggregate.AggregateType, l.aggregate.AggregateID)
		promote(&b, l.group, l.aggregate.AggregateID, true, nil, d.now)
	}
	promote(&b, l.group, l.aggregate.AggregateID, false, nil, d.now)
	return d.tx.SendBatch(ctx, &b).Close()
}
