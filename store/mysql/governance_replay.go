package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
	"github.com/settlemq/settle/store/halflog"
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
	// Whose letter it is never changes.
	findLetter = `SELECT service_side = 'relay', service_side = 'bridge', service_side = 'txmsg', consumer_group, event_id, aggregate_id FROM t_dead_letter WHERE id = ?`

	// What is about to come to wait behind the event, or has just begun to deal
	// with it, ends first; see lockKeys.
	lockLetterKey = `SELECT id FROM t_consume_retry FORCE INDEX (i_consume_retry_key) WHERE consumer_group = ? AND aggregate_id = ? AND blocking ORDER BY id LIMIT 1 FOR UPDATE`

	lockLetterLog = `SELECT status FROM t_message_consume_log WHERE consumer_group = ? AND event_id = ? FOR UPDATE`

	lockLetter = `SELECT d.destination, d.outbox_id, d.aggregate_type, d.aggregate_seq, d.class, d.state, coalesce(octet_length(d.raw), 0) > 0
FROM t_dead_letter d WHERE d.id = ? FOR UPDATE`
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
			g.s.cfg.Crash("replay.before_commit")
			// Crash here: nothing of this transaction was done, and nothing is audited.
			return nil
		})
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, done...)
		g.s.cfg.Crash("replay.after_commit")
	}
	return outcomes, nil
}

func (g *Governance) change(ctx context.Context, d *deed, action string, id int64, f change) (govern.Outcome, error) {
	o := govern.Outcome{ID: id, Result: "refused"}
	l := deadLetter{id: id}
	err := l.lock(ctx, d.tx)
	switch {
	case errors.Is(err, sql.ErrNoRows):
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

// lock reads the dead letter and keeps others from changing it, in the order in
// which consumers lock what is theirs: the key, the log row, the letter.
func (d *deadLetter) lock(ctx context.Context, tx *sql.Tx) error {
	err := tx.QueryRowContext(ctx, findLetter, d.id).Scan(&d.relay, &d.foreign, &d.half, &d.group, &d.eventID, &d.aggregate.AggregateID)
	if err != nil {
		return err
	}
	if !d.relay && !d.foreign && !d.half {
		var first int64
		err := tx.QueryRowContext(ctx, lockLetterKey, d.group, d.aggregate.AggregateID).Scan(&first)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = tx.QueryRowContext(ctx, lockLetterLog, d.group, d.eventID).Scan(&d.status)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return tx.QueryRowContext(ctx, lockLetter, d.id).Scan(&d.destination, &d.outboxID, &d.aggregate.AggregateType, &d.seq, &d.class, &d.state, &d.kept)
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
const triedToCompensate = `SELECT EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ? AND event_id = ? AND compensate IS NOT NULL AND attempts > 0)`

func replayConsume(ctx context.Context, d *deed, l *deadLetter, o govern.ReplayOptions) (string, error) {
	var tried bool
	if err := d.tx.QueryRowContext(ctx, triedToCompensate, l.group, l.eventID).Scan(&tried); err != nil {
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

const reviveRetry = `UPDATE t_consume_retry SET state = 'PARKED', attempts = 0, next_at = ?, parked_at = ?, replays = replays + 1,
accept_duplicate = accept_duplicate OR ?, compensate = ?, class = CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END
WHERE consumer_group = ? AND event_id = ?`

const remakeRetry = `INSERT INTO t_consume_retry
(consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, compensate, replays, parked_at, topic, ` + "`partition`, `offset`" + `, position, recorded_at, record_key, raw, headers)
SELECT consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, 'PARKED', false, 0,
 ?, CASE class WHEN 'kills_process' THEN 'suspect' ELSE class END, reason, ?, ?, 1, ?, topic, ` + "`partition`, `offset`" + `, position, recorded_at, record_key, raw, headers
FROM t_dead_letter WHERE id = ?`

const parkLog = `UPDATE t_message_consume_log SET status = 'PARKED' WHERE consumer_group = ? AND event_id = ?`

const beginAgain = `UPDATE t_dead_letter SET state = ?, acted_by = ? WHERE id = ?`

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
	compensate := orNull(r.compensate)
	n, err := d.do(ctx, reviveRetry, d.now, d.now, r.accept, compensate, l.group, l.eventID)
	if err == nil && n == 0 {
		_, err = d.do(ctx, remakeRetry, d.now, r.accept, compensate, d.now, l.id)
	}
	if err != nil {
		return "", err
	}
	if _, err := d.do(ctx, parkLog, l.group, l.eventID); err != nil {
		return "", err
	}
	_, err = d.do(ctx, beginAgain, r.state, d.By, l.id)
	return "", err
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
		if err := g.s.shared.discarded(ctx, d, l); err != nil {
			return "", err
		}
		_, err := d.do(ctx, endDiscarded, d.now, d.By, l.id)
		return "", err
	})
}

const endDiscarded = `UPDATE t_dead_letter SET state = 'DISCARDED', closed_at = ?, closed_by = ? WHERE id = ?`

const discardRetry = `DELETE FROM t_consume_retry WHERE consumer_group = ? AND event_id = ?`

const discardLog = `UPDATE t_message_consume_log SET status = 'DISCARDED', reason = ?, processed_at = ? WHERE consumer_group = ? AND event_id = ?`

const passSeq = `UPDATE t_consume_seq SET last_seq = ? WHERE consumer_group = ? AND aggregate_type = ? AND aggregate_id = ? AND last_seq = ? - 1`

// discardConsume lets go what waits behind the event, and passes its place in
// the producer's count. Whether the group follows that count is not known
// here, so the first row by either order becomes due; a row that was looked at
// too early just waits on.
func discardConsume(ctx context.Context, d *deed, l *deadLetter) error {
	if _, err := d.do(ctx, discardRetry, l.group, l.eventID); err != nil {
		return err
	}
	if _, err := d.do(ctx, discardLog, d.Reason, d.now, l.group, l.eventID); err != nil {
		return err
	}
	if l.seq > 0 {
		if _, err := d.do(ctx, passSeq, l.seq, l.group, l.aggregate.AggregateType, l.aggregate.AggregateID, l.seq); err != nil {
			return err
		}
		if err := promote(ctx, d.tx, l.group, l.aggregate.AggregateID, true, "", d.now); err != nil {
			return err
		}
	}
	return promote(ctx, d.tx, l.group, l.aggregate.AggregateID, false, "", d.now)
}
