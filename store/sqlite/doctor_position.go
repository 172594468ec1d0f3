package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
)

const (
	countOwn  = `SELECT count(*) FROM sqlite_master WHERE name IN ('t_outbox_event', 't_outbox_checkpoint', 't_outbox_lease', 'v_outbox_sent', 'v_outbox_event')`
	highestID = `SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 't_outbox_event'), 0), coalesce((SELECT max(id) FROM t_outbox_event), 0))`
)

// position returns the readers of the newest checkpoint; none when there is no
// relay's position.
func (x *examination) position(ctx context.Context) (readers []relay.Reader, err error) {
	var own int
	if err := x.db.QueryRowContext(ctx, countOwn).Scan(&own); err != nil || own < 5 {
		return nil, err
	}
	var number int64
	var text string
	err = x.db.QueryRowContext(ctx, newestCheckpoint, 0).Scan(&number, &text)
	if errors.Is(err, sql.ErrNoRows) {
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

func (x *examination) generation(ctx context.Context) (doctor.Diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if len(readers) == 0 {
		return doctor.Sound("no relay has been here"), nil
	}
	fix := "restore the whole file from one moment; or decide where the relay goes on: settle outbox restart SERVICE shows what there is and the choices"
	for _, r := range readers {
		var highest int64
		if err := x.db.QueryRowContext(ctx, highestID).Scan(&highest); err != nil {
			return doctor.Diagnosis{}, err
		}
		if highest < r.Cursor {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the relay has read up to id %d, the table has given no more than %d", r.Cursor, highest), fix), nil
		}
		var event string
		err := x.db.QueryRowContext(ctx, eventAt, r.Cursor).Scan(&event)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return doctor.Diagnosis{}, err
		}
		if event != "" && r.CursorEvent != "" && event != r.CursorEvent {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the relay has read event %s at id %d, and there is %s now", r.CursorEvent, r.Cursor, event), fix), nil
		}
	}
	return doctor.Sound("the relay's position, id %d, is of this table", readers[0].Cursor), nil
}

const (
	// neverSentRows is how many events are looked at, the newest ones.
	neverSentRows = 100_000

	// A row is sent if a checkpoint says where the broker has it. One in a side
	// table, a gap or a dead letter is known to be another case.
	lookedAt = `SELECT count(*), coalesce(min(id), 0) FROM (SELECT id FROM t_outbox_event WHERE id <= (SELECT max(cursor) FROM v_outbox_reader) ORDER BY id DESC LIMIT ?)`

	findNeverSent = `WITH sent AS MATERIALIZED (SELECT id FROM v_outbox_sent WHERE last_id >= ?1)
SELECT e.id, e.event_id FROM v_outbox_event e WHERE e.id >= ?1 AND e.id <= (SELECT max(cursor) FROM v_outbox_reader) AND e.status = 'SENT'
 AND e.id NOT IN (SELECT id FROM sent) AND e.id NOT IN (SELECT id FROM t_outbox_gap)
 AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.outbox_id = e.id AND d.event_id = e.event_id)
ORDER BY e.id LIMIT 21`
)

// SQLite gives ids in the order of commits, so the relay looks only above its
// position: a row that a program has put below it, by choosing the id itself,
// is read by nobody.
func (x *examination) neverSent(ctx context.Context) (doctor.Diagnosis, error) {
	readers, err := x.position(ctx)
	if err != nil || len(readers) == 0 {
		return doctor.Sound("no relay has been here"), err
	}
	var looked, first int64
	if err := x.db.QueryRowContext(ctx, lookedAt, neverSentRows).Scan(&looked, &first); err != nil {
		return doctor.Diagnosis{}, err
	}
	rows, err := x.db.QueryContext(ctx, findNeverSent, first)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = rows.Close() }()
	var events, values []string
	for rows.Next() {
		var id int64
		var event string
		if err := rows.Scan(&id, &event); err != nil {
			return doctor.Diagnosis{}, err
		}
		events, values = append(events, event), append(values, fmt.Sprintf("(%d, 'late', unixepoch() * 1000000)", id))
	}
	if err := rows.Err(); err != nil || len(events) == 0 {
		return doctor.Sound("none of %d", looked), err
	}
	if len(events) > 20 {
		events, values = append(events[:20], "…"), values[:20]
	}
	return doctor.Diagnose(doctor.Bad, fmt.Sprintf("of %d events these were never acknowledged: %s", looked, strings.Join(events, ", ")),
			"INSERT INTO t_outbox_extra (id, reason, added_at) VALUES "+strings.Join(values, ", ")),
		nil
}

const (
	leaders     = `SELECT lane, owner, epoch, clean, deaths FROM t_outbox_lease ORDER BY lane`
	renewedTill = `SELECT expires_at FROM settle_renewal WHERE scope = '` + relayScope + `' AND name = ? AND epoch = ?`
)

func (x *examination) relay(ctx context.Context) (doctor.Diagnosis, error) {
	var own int
	if err := x.db.QueryRowContext(ctx, countOwn).Scan(&own); err != nil || own < 5 {
		return doctor.Sound("no relay has been here"), err
	}
	rows, err := x.db.QueryContext(ctx, leaders)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = rows.Close() }()
	var good, found, fixes []string
	for rows.Next() {
		var lane, deaths int
		var epoch int64
		var owner string
		var clean bool
		if err := rows.Scan(&lane, &owner, &epoch, &clean, &deaths); err != nil {
			return doctor.Diagnosis{}, err
		}
		runs, err := x.runs(ctx, lane, epoch)
		if err != nil {
			return doctor.Diagnosis{}, err
		}
		switch {
		case deaths > 0:
			found = append(found, fmt.Sprintf("lane %d: the %d leaders before %s died soon after they took over", lane, deaths, owner))
			fixes = append(fixes, "look into its log; settle dead list shows an event that kills")
		case clean:
			good = append(good, fmt.Sprintf("lane %d: given back by %s, epoch %d", lane, owner, epoch))
		case runs:
			good = append(good, fmt.Sprintf("lane %d: %s leads, epoch %d", lane, owner, epoch))
		default:
			found = append(found, fmt.Sprintf("lane %d: %s ended without giving the lease back, and nobody has taken over", lane, owner))
			fixes = append(fixes, "start settle serve")
		}
	}
	switch {
	case len(found) > 0:
		return doctor.Diagnose(doctor.Warn, strings.Join(found, "; "), strings.Join(fixes, "; ")), rows.Err()
	case len(good) == 0:
		good = []string{"no relay has been here"}
	}
	return doctor.Sound("%s", strings.Join(good, "; ")), rows.Err()
}

// runs asks the lease file, without making one where there is none.
func (x *examination) runs(ctx context.Context, lane int, epoch int64) (bool, error) {
	if _, err := os.Stat(x.path + "-lease"); err != nil {
		return false, nil
	}
	db, err := sql.Open("sqlite", dsn(x.path+"-lease", Config{BusyTimeout: x.cfg.BusyTimeout}, "mode=ro"))
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }()
	var until int64
	err = db.QueryRowContext(ctx, renewedTill, laneName(lane), epoch).Scan(&until)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return x.cfg.Clock().Before(time.UnixMicro(until)), err
}
