package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
)

const (
	hasCheckpoints = `SELECT to_regclass('t_outbox_checkpoint') IS NOT NULL AND to_regclass('t_outbox_event') IS NOT NULL AND to_regclass('v_outbox_sent') IS NOT NULL`
	eventAtID      = `SELECT event_id::text FROM t_outbox_event WHERE id = $1`
)

// position returns the readers of the newest checkpoint; none when there is no
// relay's position.
func (x *examination) position(ctx context.Context) (readers []relay.Reader, err error) {
	var has bool
	if err := x.conn.QueryRow(ctx, hasCheckpoints).Scan(&has); err != nil || !has {
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
	if err := json.Unmarshal([]byte(text), &readers); err != nil {
		return nil, fmt.Errorf("read checkpoint %d: %w", number, err)
	}
	return readers, nil
}

func (x *examination) generation(ctx context.Context) (diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	if len(readers) == 0 {
		return sound("no relay has been here"), nil
	}
	s, found, err := x.sequence(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	fix := "restore the table with all side tables from one moment; or, if what was sent before may be sent again, DELETE FROM t_outbox_checkpoint while no relay runs"
	for _, r := range readers {
		var highest int64
		if err := x.conn.QueryRow(ctx, highestID).Scan(&highest); err != nil {
			return diagnosis{}, err
		}
		if found && s.last >= 0 && max(s.last, highest) < r.Cursor {
			return diagnosis{doctor.Bad, fmt.Sprintf("the relay has read up to id %d, the table has given no more than %d", r.Cursor, max(s.last, highest)), fix}, nil
		}
		var event string
		err := x.conn.QueryRow(ctx, eventAtID, r.Cursor).Scan(&event)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return diagnosis{}, err
		}
		if event != "" && r.CursorEvent != "" && event != r.CursorEvent {
			return diagnosis{doctor.Bad, fmt.Sprintf("the relay has read event %s at id %d, and there is %s now", r.CursorEvent, r.Cursor, event), fix}, nil
		}
	}
	return sound("the relay's position, id %d, is of this table", readers[0].Cursor), nil
}

const (
	// neverSentRows is how many events are looked at, the newest ones.
	neverSentRows = 100_000

	// A row is sent if a checkpoint says where the broker has it. One in a side
	// table, a gap or a dead letter is known to be another case.
	findNeverSent = `WITH looked AS MATERIALIZED (SELECT id, event_id, status FROM v_outbox_event
  WHERE id <= (SELECT max(cursor) FROM v_outbox_reader) ORDER BY id DESC LIMIT $1),
 sent AS MATERIALIZED (SELECT id FROM v_outbox_sent WHERE last_id >= (SELECT min(id) FROM looked)),
 missed AS (SELECT l.id, l.event_id FROM looked l WHERE l.status = 'SENT' AND NOT EXISTS (SELECT 1 FROM sent s WHERE s.id = l.id)
  AND NOT EXISTS (SELECT 1 FROM t_outbox_gap g WHERE l.id BETWEEN g.first_id AND g.last_id)
  AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.outbox_id = l.id))
SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM missed),
 coalesce((SELECT array_agg(m.id ORDER BY m.id) FROM (SELECT id FROM missed ORDER BY id LIMIT 20) m), '{}'),
 coalesce((SELECT string_agg(m.event_id, ', ' ORDER BY m.id) FROM (SELECT id, event_id FROM missed ORDER BY id LIMIT 20) m), '')`
)

func (x *examination) neverSent(ctx context.Context) (diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil || len(readers) == 0 || x.outbox.classic {
		return sound("no relay has been here"), err
	}
	var looked, missed int64
	var ids []int64
	var events string
	if err := x.conn.QueryRow(ctx, findNeverSent, neverSentRows).Scan(&looked, &missed, &ids, &events); err != nil {
		return diagnosis{}, err
	}
	if missed == 0 {
		return sound("none of %d", looked), nil
	}
	var values []string
	for _, id := range ids {
		values = append(values, fmt.Sprintf("(%d, 'late', now())", id))
	}
	found := fmt.Sprintf("%d of %d: %s", missed, looked, events)
	if missed > int64(len(ids)) {
		found += ", …"
	}
	return diagnosis{doctor.Bad, found, "INSERT INTO t_outbox_extra (id, reason, added_at) VALUES " + strings.Join(values, ", ") +
		"; the relay sends them; let the database give ids, and nobody set them"}, nil
}
