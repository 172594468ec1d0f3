package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	makeOwn = `CREATE DATABASE IF NOT EXISTS %s CHARACTER SET utf8mb4 COLLATE %s`

	putAdoption = `INSERT INTO settle_adoption (one, decided, begun_at) VALUES (1, ?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE decided = VALUES(decided)`

	isAdopted = `SELECT coalesce((SELECT adopted_at IS NOT NULL FROM settle_adoption), false)`
)

func (a *Adopt) run(ctx context.Context, l *adoptLook) (err error) {
	if !l.there {
		if _, err := l.db.ExecContext(ctx, fmt.Sprintf(makeOwn, quoted(l.own), l.is.exact)); err != nil {
			return fmt.Errorf("make database %s for Settle's own tables (GRANT ALL ON %s.* TO … lets the account do it): %w", plain(l.own), quoted(l.own), err)
		}
	}
	db, err := a.connect(l.own, l.is)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	files, err := l.is.layout(!l.alone)
	if err != nil {
		return err
	}
	if err := migrate.Up(ctx, db, migrate.MySQL, files); err != nil {
		return err
	}
	if err := putShared(ctx, db, l.shared); err != nil || l.alone {
		return err
	}
	decided, err := json.Marshal(l.adoption)
	if err != nil {
		return err
	}
	// Each of these is committed by itself. Crash here: what was decided before
	// stands, and the same command goes on.
	for _, view := range l.adoption.views(l.own) {
		if _, err := db.ExecContext(ctx, view); err != nil {
			return fmt.Errorf("make the views of the table: %w", err)
		}
	}
	if _, err := db.ExecContext(ctx, putAdoption, string(decided)); err != nil {
		return err
	}
	var done bool
	if err := db.QueryRowContext(ctx, isAdopted).Scan(&done); err != nil || done && !a.cfg.Again {
		return err
	}
	if done {
		if err := forgetPosition(ctx, db); err != nil {
			return err
		}
	}
	return listWaiting(ctx, db, l.adoption)
}

const (
	// A relay that leads would go on from what it has in memory.
	anybodyLeads = `SELECT l.owner FROM t_outbox_lease l WHERE NOT l.clean AND EXISTS (SELECT 1 FROM settle_renewal r
WHERE r.scope = ? AND r.name = l.lane AND r.epoch = l.epoch AND r.expires_at > UTC_TIMESTAMP(6)) FOR UPDATE`

	wasDivided = `SELECT EXISTS (SELECT 1 FROM t_outbox_lease WHERE lane <> 0)`

	// What the other relay has not sent says so itself. What our own has given
	// up, and what a person has asked for, stays.
	forgetExtra   = `DELETE FROM t_outbox_extra WHERE message_id = ''`
	forgetDelayed = `DELETE FROM t_outbox_delayed`
	forgetGaps    = `DELETE FROM t_outbox_gap`
	forgetParked  = `DELETE p FROM t_outbox_parked p LEFT JOIN (SELECT DISTINCT destination, aggregate_id FROM t_outbox_parked WHERE dead) d
 ON d.destination = p.destination AND d.aggregate_id = p.aggregate_id WHERE d.destination IS NULL`
	forgetAdopted = `UPDATE settle_adoption SET adopted_at = NULL, high_id = NULL, listed_id = 0, foreign_id = 0, foreign_rows = 0, foreign_seen_at = NULL`
)

// forgetPosition makes the adoption an unfinished one, so that all begins anew.
func forgetPosition(ctx context.Context, db *sql.DB) error {
	return inTx(ctx, db, func(tx *sql.Tx) error {
		var owner string
		err := tx.QueryRowContext(ctx, anybodyLeads, relayScope).Scan(&owner)
		switch {
		case err == nil:
			return fmt.Errorf("a relay of Settle is at work (%s); stop it, and begin anew then: %w", owner, migrate.ErrNotAdoptable)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		var divided bool
		if err := tx.QueryRowContext(ctx, wasDivided).Scan(&divided); err != nil {
			return err
		}
		if divided {
			return fmt.Errorf("its lanes were changed since it was adopted: take Settle's tables back (settle migrate down --to 0) and adopt it as at the first time: %w", migrate.ErrNotAdoptable)
		}
		// Crash here: the next run lists from the start.
		for _, query := range []string{forgetExtra, forgetDelayed, forgetGaps, forgetParked, forgetAdopted} {
			if _, err := tx.ExecContext(ctx, query); err != nil {
				return err
			}
		}
		return nil
	})
}

func inTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

const (
	// What is above the highest id is read as a log; it is settled once, so that
	// going on after a crash leaves no rows between two of them.
	settleHighest = `UPDATE settle_adoption SET high_id = (SELECT coalesce(max(id), 0) FROM %s) WHERE high_id IS NULL`

	// Keys with a row that is to be retried begin blocked: all rows of theirs
	// that wait follow one another, by id. A row without a key is alone.
	parkRetried = `INSERT IGNORE INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, attempts, next_at, class, cause, parked_at)
SELECT w.topic, w.own_key, w.id, w.event_id, w.event_type, IF(w.again, w.attempts, 0), IF(w.again, w.next_at, NULL), IF(w.again, %[1]s, %[2]s), IF(w.again, w.cause, ''), UTC_TIMESTAMP(6)
FROM (SELECT e.id, %[3]s AS own_key, %[4]s AS topic, %[5]s AS event_id, %[6]s AS event_type, e.status IN (%[7]s) AS again, %[8]s AS attempts, %[9]s AS next_at, %[10]s AS cause
 FROM %[11]s e WHERE e.status IN (%[7]s, %[12]s) AND e.id <= (SELECT high_id FROM settle_adoption)) w
JOIN (SELECT DISTINCT %[3]s AS own_key, %[4]s AS topic FROM %[11]s e WHERE e.status IN (%[7]s) AND e.id <= (SELECT high_id FROM settle_adoption)) blocked
 ON blocked.own_key = w.own_key AND blocked.topic = w.topic ORDER BY w.id`

	// The others that wait are the backlog. To read it by id would be to read the
	// whole table where few rows wait, which the sum keeps the server from.
	waitingIDs = `SELECT e.id FROM %[1]s e%[2]s WHERE e.status IN (%[3]s) AND e.id > ? AND e.id <= ? ORDER BY %[4]s LIMIT ?`
	listBounds = `SELECT listed_id, high_id FROM settle_adoption`
	listIDs    = `INSERT IGNORE INTO t_outbox_extra (id, reason, added_at) SELECT j.id, 'backlog', UTC_TIMESTAMP(6) FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) j
WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = j.id)`
	listedTo = `UPDATE settle_adoption SET listed_id = ?`

	// Where nothing else finds a row that is stored late, its missing id does.
	presentIDs = `SELECT id FROM %s FORCE INDEX (PRIMARY) WHERE id > ? AND id < ? ORDER BY id LIMIT ?`

	// The relay begins behind the highest id. Of the ids just below it that have
	// no row, some may be those of transactions that are open.
	beginLog = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at)
SELECT 0, coalesce(c.epoch, 0), coalesce(c.number, 0) + 1, CONCAT('[{"cursor":', s.high_id, ',"cursor_event":', JSON_QUOTE(coalesce((SELECT %[2]s FROM %[1]s e WHERE e.id = s.high_id), '')), ',"open":[', coalesce(missing.runs, ''), ']}]'), UTC_TIMESTAMP(6)
FROM settle_adoption s
LEFT JOIN (SELECT epoch, number FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
LEFT JOIN (SELECT group_concat('[', r.first_id, ',', r.last_id, ']' ORDER BY r.first_id SEPARATOR ',') AS runs FROM
 (SELECT coalesce(lag(i.id) OVER (ORDER BY i.id), greatest(0, (SELECT high_id FROM settle_adoption) - %[3]d - 1)) + 1 AS first_id, i.id - 1 AS last_id FROM
  (SELECT e.id FROM %[1]s e, settle_adoption h WHERE e.id >= h.high_id - %[3]d AND e.id < h.high_id UNION ALL SELECT high_id FROM settle_adoption) i) r WHERE r.first_id <= r.last_id) missing ON true
WHERE s.high_id > 0 OR c.epoch IS NOT NULL`

	finishAdoption = `UPDATE settle_adoption SET adopted_at = UTC_TIMESTAMP(6)`
)

const (
	// listRows is how many rows are listed in one transaction.
	listRows = 50_000
	// openBelow is how far below the highest id a missing one is awaited.
	openBelow = 2000
)

// listing are the statements of listWaiting for one table.
type listing struct{ highest, park, waiting, present, begin string }

func newListing(d *adoption) listing {
	attempts, cause := "0", "''"
	if d.Has("retry_count") {
		attempts = "coalesce(e.retry_count, 0)"
	}
	if d.Has("last_error") {
		cause = "coalesce(" + d.unicode("last_error") + ", '')"
	}
	short := func(column string) string { return "LEFT(" + d.exact(d.texted(column)) + ", 191)" }
	key := "coalesce(nullif(" + short("aggregate_id") + ", ''), CONCAT('#', e.id))"
	retry, pending := d.words(migrate.StatusRetry), d.words(migrate.StatusPending)
	hint, order := " FORCE INDEX (PRIMARY)", "e.id"
	if d.StatusIndex {
		hint, order = "", "e.id + 0"
	}
	return listing{
		highest: fmt.Sprintf(settleHighest, d.table()),
		park: fmt.Sprintf(parkRetried, literal(string(settle.ClassPublish)), literal(string(settle.ClassFollower)), key, d.topic(), short("event_id"), short("event_type"),
			retry, attempts, d.zoned("next_retry_time"), cause, d.table(), pending),
		waiting: fmt.Sprintf(waitingIDs, d.table(), hint, d.words(migrate.StatusPending, migrate.StatusRetry), order),
		present: fmt.Sprintf(presentIDs, d.table()),
		begin:   fmt.Sprintf(beginLog, d.table(), short("event_id"), openBelow),
	}
}

func listWaiting(ctx context.Context, db *sql.DB, d *adoption) error {
	s := newListing(d)
	if _, err := db.ExecContext(ctx, s.highest); err != nil {
		return err
	}
	if len(d.Status[migrate.StatusRetry]) > 0 {
		if _, err := db.ExecContext(ctx, s.park); err != nil {
			return fmt.Errorf("park keys that are to be retried: %w", err)
		}
	}
	// Crash here: what was parked or listed stays so, and the next run goes on
	// behind it.
	for done := false; !done; {
		var err error
		if done, err = listPiece(ctx, db, s); err != nil {
			return fmt.Errorf("list rows that wait: %w", err)
		}
	}
	if !d.StatusIndex || !d.Project {
		if err := listMissing(ctx, db, s); err != nil {
			return fmt.Errorf("list ids that have no row: %w", err)
		}
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.begin); err != nil {
			return fmt.Errorf("write the first checkpoint: %w", err)
		}
		_, err := tx.ExecContext(ctx, finishAdoption)
		return err
	})
}

// listPiece reads ids in one statement, which holds nothing when it has ended,
// and writes them in a transaction that touches tables of our own only.
func listPiece(ctx context.Context, db *sql.DB, s listing) (done bool, err error) {
	var from, high, id int64
	if err := db.QueryRowContext(ctx, listBounds).Scan(&from, &high); err != nil {
		return false, err
	}
	var ids []int64
	if err := each(ctx, db, []any{&id}, func() { ids = append(ids, id) }, s.waiting, from, high, listRows); err != nil {
		return false, err
	}
	if done = len(ids) < listRows; !done {
		high = ids[len(ids)-1]
	}
	return done, inTx(ctx, db, func(tx *sql.Tx) error {
		for some := range slices.Chunk(ids, 10*rowsAtOnce) {
			if _, err := tx.ExecContext(ctx, listIDs, idList(some)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, listedTo, high)
		return err
	})
}

// listMissing makes cold ids of those far below the highest that have no row.
func listMissing(ctx context.Context, db *sql.DB, s listing) error {
	var listed, high int64
	if err := db.QueryRowContext(ctx, listBounds).Scan(&listed, &high); err != nil {
		return err
	}
	end := high - openBelow
	for from := int64(0); from < end-1; {
		var runs []outboxlog.Run
		var id int64
		n, last := 0, from
		err := each(ctx, db, []any{&id}, func() {
			if id > last+1 {
				runs = append(runs, outboxlog.Run{last + 1, id - 1})
			}
			n, last = n+1, id
		}, s.present, from, end, listRows)
		if err != nil {
			return err
		}
		if n < listRows && last < end-1 {
			runs = append(runs, outboxlog.Run{last + 1, end - 1})
			last = end - 1
		}
		from = last
		err = inTx(ctx, db, func(tx *sql.Tx) error {
			w := flushing{ctx: ctx, tx: tx, now: time.Now().UTC()}
			w.gaps(runs)
			return w.err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
