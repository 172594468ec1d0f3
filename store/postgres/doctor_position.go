package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	hasCheckpoints = `SELECT to_regclass('t_outbox_checkpoint') IS NOT NULL AND to_regclass('t_outbox_event') IS NOT NULL AND to_regclass('v_outbox_sent') IS NOT NULL`
	eventAtID      = `SELECT event_id::text FROM t_outbox_event WHERE id = $1`
)

// position returns the readers of the newest checkpoint; none when there is no
// relay's position.
func (x *examination) position(ctx context.Context) (readers []relay.Reader, err error) {
	if !x.numbered() {
		return nil, nil
	}
	var has bool
	if err := x.conn.QueryRow(ctx, x.of(hasCheckpoints)).Scan(&has); err != nil || !has {
		return nil, err
	}
	var number int64
	var text string
	err = x.conn.QueryRow(ctx, newestCheckpoint, 0).Scan(&number, &text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if readers, err = outboxlog.UnpackReaders(text); err != nil {
		return nil, fmt.Errorf("read checkpoint %d: %w", number, err)
	}
	return readers, nil
}

func (x *examination) generation(ctx context.Context) (doctor.Diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if len(readers) == 0 {
		return doctor.Sound("no relay has been here"), nil
	}
	s, found, err := x.sequence(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	fix := "restore the table with all side tables from one moment; or decide where the relay goes on: settle outbox restart SERVICE shows what there is and the choices"
	for _, r := range readers {
		var highest int64
		if err := x.conn.QueryRow(ctx, x.of(highestID)).Scan(&highest); err != nil {
			return doctor.Diagnosis{}, err
		}
		if found && s.last >= 0 && max(s.last, highest) < r.Cursor {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the relay has read up to id %d, the table has given no more than %d", r.Cursor, max(s.last, highest)), fix), nil
		}
		var event string
		err := x.conn.QueryRow(ctx, x.of(eventAtID), r.Cursor).Scan(&event)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return doctor.Diagnosis{}, err
		}
		if event != "" && r.CursorEvent != "" && event != r.CursorEvent {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the relay has read event %s at id %d, and there is %s now", r.CursorEvent, r.Cursor, event), fix), nil
		}
	}
	return doctor.Sound("the relay's position, id %d, is of this table", readers[0].Cursor), nil
}

// neverSentRows is how many events are looked at, the newest ones.
const neverSentRows = 100_000

const (
	// Taking JSON apart is guessed to yield so many rows that compiling the
	// statement would cost seconds.
	withoutJIT = `SELECT set_config('jit', 'off', true), set_config('statement_timeout', $1, true)`

	sentByStatus = `SELECT e.id, e.event_id FROM v_outbox_event e WHERE e.id <= $1 AND e.id >= $2 AND e.status = 'SENT'
 AND NOT EXISTS (SELECT 1 FROM t_outbox_gap g WHERE g.first_id = (SELECT max(n.first_id) FROM t_outbox_gap n WHERE n.first_id <= e.id) AND g.last_id >= e.id)
 AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id) ORDER BY e.id`

	sentByCheckpoint = `SELECT id FROM v_outbox_sent WHERE last_id >= $1`

	neverSentFrom = `SELECT coalesce(min(id), 0) FROM (SELECT id FROM t_outbox_event WHERE id <= $1 ORDER BY id DESC LIMIT $2) newest`
)

// unsent is a row that counts as sent.
type unsent struct {
	id    int64
	event string
}

// neverSent: a row is sent if a checkpoint says where the broker has it. One in
// a side table, a gap or a dead letter is known to be another case.
func (x *examination) neverSent(ctx context.Context) (doctor.Diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil || len(readers) == 0 || x.outbox.classic {
		return doctor.Sound("no relay has been here"), err
	}
	if x.torn {
		return doctor.Diagnose(doctor.Warn, "can't be looked at without transactions", "look again through another pooler, or none"), nil
	}
	highest := int64(0)
	for _, r := range readers {
		highest = max(highest, r.Cursor)
	}
	looked, missed, err := x.compareSent(ctx, highest)
	if err != nil || len(missed) == 0 {
		return doctor.Sound("none of %d", looked), err
	}
	var events, values []string
	for _, u := range missed[:min(len(missed), 20)] {
		events, values = append(events, u.event), append(values, fmt.Sprintf("(%d, 'late', now())", u.id))
	}
	if len(missed) > len(events) {
		events = append(events, "…")
	}
	return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%d of %d were never acknowledged: %s", len(missed), looked, strings.Join(events, ", ")),
			"INSERT INTO t_outbox_extra (id, reason, added_at) VALUES "+strings.Join(values, ", ")),
		nil
}

// compareSent reads both sides in one snapshot.
func (x *examination) compareSent(ctx context.Context, highest int64) (looked int, missed []unsent, err error) {
	err = pgx.BeginTxFunc(ctx, x.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, withoutJIT, ms(x.cfg.StatementTimeout)); err != nil {
			return err
		}
		var from, id int64
		if err := tx.QueryRow(ctx, neverSentFrom, highest, neverSentRows).Scan(&from); err != nil {
			return err
		}
		sent := map[int64]bool{}
		if err := each(ctx, tx, []any{&id}, func() { sent[id] = true }, sentByCheckpoint, from); err != nil {
			return err
		}
		var event string
		return each(ctx, tx, []any{&id, &event}, func() {
			if looked++; !sent[id] {
				missed = append(missed, unsent{id, event})
			}
		}, sentByStatus, highest, from)
	})
	return looked, missed, err
}
