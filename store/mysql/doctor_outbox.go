package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

func (x *examination) outboxChecks() []check {
	return []check{
		{"outbox_id", "the outbox is read in the order of its ids: events of a key are in order only if the table gives them one by one", x.outboxID},
		{"pooled_ids", "an application that takes ids in blocks stores events below the ids of earlier ones: the order per key can't be promised", x.pooledIDs},
		{"generation", "a relay whose position belongs to another life of the table (restored, emptied) stops", x.generation},
		{"never_sent", "a row below the relay's position that was never sent, because a program has chosen its id itself, counts as sent and is deleted as such", x.neverSent},
	}
}

const (
	outboxCounter = `SELECT c.extra, coalesce(t.auto_increment, 0) FROM information_schema.columns c JOIN information_schema.tables t
 ON t.table_schema = c.table_schema AND t.table_name = c.table_name WHERE c.table_schema = ? AND c.table_name = ? AND c.column_name = 'id'`
)

func (x *examination) outboxID(ctx context.Context) (doctor.Diagnosis, error) {
	var extra string
	var next uint64
	database, table, name := x.outboxAt()
	err := x.db.QueryRowContext(ctx, outboxCounter, database, table).Scan(&extra, &next)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return doctor.Sound("there is no %s whose rows have numbers", name), nil
	case err != nil:
		return doctor.Diagnosis{}, err
	case !strings.Contains(extra, "auto_increment") && x.adopted != nil:
		return doctor.Diagnose(doctor.Warn, "ids of "+name+" are given by its programs", "give them in the order in which transactions commit, one by one; or let the table do it: ALTER TABLE "+name+" MODIFY COLUMN id BIGINT NOT NULL AUTO_INCREMENT"), nil
	case !strings.Contains(extra, "auto_increment"):
		return doctor.Diagnose(doctor.Bad, "id of t_outbox_event is not AUTO_INCREMENT", "ALTER TABLE t_outbox_event MODIFY COLUMN id BIGINT NOT NULL AUTO_INCREMENT"), nil
	case next > math.MaxInt64/10*8:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("the next id is %d: a program has chosen a high one", next), "stop the program that chooses ids itself; the relay reads no others behind the highest"), nil
	}
	return doctor.Sound("the table gives them, %d is next", next), nil
}

const (
	hasTables = `SELECT count(*) = 3 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('t_outbox_checkpoint', 't_outbox_event', 'v_outbox_sent')`
	highestID = `SELECT coalesce(max(id), 0) FROM t_outbox_event`
)

// position returns the readers of the newest checkpoint; none when there is no
// relay's position.
func (x *examination) position(ctx context.Context) (readers []relay.Reader, err error) {
	var has bool
	if err := x.db.QueryRowContext(ctx, hasTables).Scan(&has); err != nil || !has {
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
	var given int64
	if err := x.db.QueryRowContext(ctx, x.reading(givenUpTo)).Scan(&given); err != nil {
		return doctor.Diagnosis{}, err
	}
	fix := "restore the table with all side tables from one moment; or decide where the relay goes on: settle outbox restart SERVICE shows what there is and the choices"
	for _, r := range readers {
		if given < r.Cursor {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the relay has read up to id %d, the table has given no more than %d", r.Cursor, given), fix), nil
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

// neverSentRows is how many events are looked at, the newest ones.
const neverSentRows = 100_000

const (
	sentByStatus = `SELECT e.id, e.event_id FROM v_outbox_event e WHERE e.id <= ? AND e.id >= ? AND e.status = 'SENT'
 AND NOT EXISTS (SELECT 1 FROM t_outbox_gap g WHERE g.first_id = (SELECT max(n.first_id) FROM t_outbox_gap n WHERE n.first_id <= e.id) AND g.last_id >= e.id)
 AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = (e.event_id) AND d.outbox_id = e.id) ORDER BY e.id`

	sentByCheckpoint = `SELECT id FROM v_outbox_sent WHERE last_id >= ?`

	neverSentFrom = `SELECT coalesce(min(id), 0) FROM (SELECT id FROM t_outbox_event WHERE id <= ? ORDER BY id DESC LIMIT ?) newest`

	// What lies below was sent, or not, before the table was adopted.
	adoptedFrom = `SELECT coalesce(high_id, 0) + 1 FROM settle_adoption`
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
	if err != nil || len(readers) == 0 {
		return doctor.Sound("no relay has been here"), err
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
		events, values = append(events, u.event), append(values, fmt.Sprintf("(%d, 'late', UTC_TIMESTAMP(6))", u.id))
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
	err = snapshot(ctx, x.db, func(tx *sql.Tx) error {
		var from, id int64
		if err := tx.QueryRowContext(ctx, neverSentFrom, highest, neverSentRows).Scan(&from); err != nil {
			return err
		}
		if x.adopted != nil {
			var begun int64
			if err := tx.QueryRowContext(ctx, adoptedFrom).Scan(&begun); err != nil {
				return err
			}
			from = max(from, begun)
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
		}, x.reading(sentByStatus), highest, from)
	})
	return looked, missed, err
}
