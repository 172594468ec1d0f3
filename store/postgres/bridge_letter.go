package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
)

const (
	// By the return id that the message carries, or else by the event that was
	// replayed last.
	findBefore = `SELECT EXISTS (SELECT 1 FROM t_bridged_letter WHERE consumer_group = $2 AND identity = $3),
 coalesce((SELECT letter_id FROM t_bridged_letter WHERE consumer_group = $2 AND identity = $4),
 (SELECT max(id) FROM t_dead_letter WHERE consumer_group = $2 AND event_id = $5 AND service_side = 'bridge' AND state IN ('REPLAYING', 'REPLAYED'))),
 ` + databaseNow

	insertBridgedDead = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, partition, "offset", appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('bridge',$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,'OPEN',false,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23) RETURNING id`

	insertBridged = `INSERT INTO t_bridged_letter (letter_id, consumer_group, identity, before_id, died_at, bridged_at, told) VALUES ($1,$2,$3,$4,$5,$6,$7)`
)

// Keep implements bridge.Store.
func (b *Bridge) Keep(ctx context.Context, l bridge.Lease, letters []bridge.Letter) (fresh int, err error) {
	rows, err := bridgelog.RowsOf(letters)
	if err != nil {
		return 0, err
	}
	err = b.write(ctx, l, func(tx pgx.Tx) error {
		fresh = 0
		for i := range rows {
			added, err := b.keep(ctx, tx, l.Group, &rows[i])
			if err != nil {
				return err
			}
			if added {
				fresh++
			}
		}
		b.s.crash("bridge.before_commit")
		// Crash here: none of them is kept, and none was acknowledged.
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("keep %d dead letters of group %s: %w", len(letters), l.Group, err)
	}
	b.s.crash("bridge.after_commit")
	return fresh, nil
}

func (b *Bridge) keep(ctx context.Context, tx pgx.Tx, group string, r *bridgelog.Row) (bool, error) {
	var known bool
	var before *int64
	var now time.Time
	if err := tx.QueryRow(ctx, findBefore, b.s.clock(), group, r.Identity, r.ReturnID, r.EventID).Scan(&known, &before, &now); err != nil || known {
		return false, err
	}
	var id int64
	err := tx.QueryRow(ctx, insertBridgedDead, group, r.EventID, r.Identity, r.EventType, r.AggregateType, r.AggregateID, r.AggregateSeq, r.BizKey, r.TraceID,
		r.Class, r.Reason, r.Attempts, now, now.Add(bridgelog.Due), r.Topic, r.Partition, r.Offset,
		nullable(r.AppendedAt), nullable(r.RecordedAt), r.RecordKey, r.Raw, r.Payload, []byte(r.Headers)).Scan(&id)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, insertBridged, id, group, r.Identity, before, nullable(r.DiedAt), now, r.Told)
	return true, err
}

const (
	readOrdered = `SELECT d.id, d.destination, b.target, b.tries, d.record_key, d.raw, b.told, d.recorded_at
FROM t_bridged_letter b JOIN t_dead_letter d ON d.id = b.letter_id
WHERE b.consumer_group = $2 AND b.next_at <= ` + databaseNow + ` AND d.state = 'REPLAYING' ORDER BY b.letter_id LIMIT $3`

	nextOrdered = `SELECT min(next_at) FROM t_bridged_letter WHERE consumer_group = $1 AND next_at IS NOT NULL`
)

// Ordered implements bridge.Store.
func (b *Bridge) Ordered(ctx context.Context, group string, limit int) (bridge.Ordered, error) {
	var o bridge.Ordered
	err := b.s.view(ctx, func(tx pgx.Tx) error {
		var id int64
		var identity string
		var to govern.Target
		var tries int
		var key, raw, told []byte
		var recorded, next pgtype.Timestamptz
		var wrong error
		err := each(ctx, tx, []any{&id, &identity, &to, &tries, &key, &raw, &told, &recorded}, func() {
			order, err := bridgelog.OrderOf(id, group, identity, to, tries, key, raw, told, instant(recorded))
			wrong = errors.Join(wrong, err)
			o.Orders = append(o.Orders, order)
		}, readOrdered, b.s.clock(), group, limit)
		if err := errors.Join(err, wrong); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, nextOrdered, group).Scan(&next)
		o.Next = instant(next)
		return err
	})
	if err != nil {
		return bridge.Ordered{}, fmt.Errorf("read ordered replays of group %s: %w", group, err)
	}
	return o, nil
}

const (
	markReturned = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ` + databaseNow + `, closed_by = acted_by WHERE id = $2 AND service_side = 'bridge' AND state = 'REPLAYING'`

	markOpen = `UPDATE t_dead_letter SET state = 'OPEN' WHERE id = $1 AND service_side = 'bridge' AND state = 'REPLAYING'`

	markTried = `UPDATE t_bridged_letter SET tries = $1, next_at = $2, refused = $3 WHERE letter_id = $4 AND next_at IS NOT NULL`
)

// Mark implements bridge.Store.
func (b *Bridge) Mark(ctx context.Context, l bridge.Lease, marks []bridge.Mark) error {
	err := b.write(ctx, l, func(tx pgx.Tx) error {
		var batch pgx.Batch
		for _, m := range marks {
			switch m.Result {
			case bridge.ResultReturned:
				batch.Queue(markReturned, b.s.clock(), m.ID)
			case bridge.ResultGivenUp:
				batch.Queue(markOpen, m.ID)
			case bridge.ResultAgain:
			}
			batch.Queue(markTried, m.Tries, nullable(m.NextAt), clean(m.Cause), m.ID)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return fmt.Errorf("mark %d replays of group %s: %w", len(marks), l.Group, err)
	}
	return nil
}

const (
	readTold = `SELECT told FROM t_bridged_letter WHERE letter_id = $1`

	orderReturn = `UPDATE t_bridged_letter SET target = $1, tries = 0, next_at = $2, refused = '' WHERE letter_id = $3`
)

// replayForeign orders the bridge to send a letter back. It closes the dead
// letter when the broker has it.
func replayForeign(ctx context.Context, d *deed, l *deadLetter, o govern.ReplayOptions) (string, error) {
	var told []byte
	err := d.tx.QueryRow(ctx, readTold, l.id).Scan(&told)
	if errors.Is(err, pgx.ErrNoRows) {
		return "what it tells of itself is missing", nil
	}
	if err != nil {
		return "", err
	}
	to, why := bridgelog.Target(o.To, l.group, told)
	if why != "" {
		return why, nil
	}
	var b pgx.Batch
	b.Queue(orderReturn, string(to), d.now, l.id)
	b.Queue(beginAgain, govern.StateReplaying, d.By, l.id)
	return "", d.tx.SendBatch(ctx, &b).Close()
}

// discardForeign lets nothing go: nothing of ours waits for the letter.
func discardForeign(context.Context, *deed, *deadLetter) error { return nil }

const showBridged = `SELECT coalesce(before_id, 0), died_at, bridged_at, told, target, tries, refused FROM t_bridged_letter WHERE letter_id = $1`

// bridged returns what is kept of a letter of a consumer that is not ours; nil
// where nothing is.
func bridged(ctx context.Context, tx pgx.Tx, id int64) (*govern.Bridged, error) {
	var b govern.Bridged
	var died, stored pgtype.Timestamptz
	var told []byte
	err := tx.QueryRow(ctx, showBridged, id).Scan(&b.Before, &died, &stored, &told, &b.Target, &b.Tries, &b.Refused)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b.DiedAt, b.BridgedAt = instant(died), instant(stored)
	bridgelog.Tell(&b, told)
	return &b, nil
}
