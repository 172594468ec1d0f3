package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
)

const (
	// What is above the highest id is read as a log; it is settled once, so that
	// going on after a crash leaves no rows between two of them.
	settleHighest = `UPDATE settle_adoption SET high_id = (SELECT coalesce(max(id), 0) FROM %s) WHERE high_id IS NULL`

	// Keys with a row that is to be retried begin blocked: all rows of theirs
	// that wait follow one another, by id. A row without a key is alone.
	parkRetried = `WITH blocked AS MATERIALIZED (SELECT DISTINCT coalesce(nullif(e.aggregate_id::text, ''), '#' || e.id) AS key, %[2]s AS topic
 FROM %[1]s e WHERE e.status IN (%[3]s) AND e.id <= (SELECT high_id FROM settle_adoption))
INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, attempts, next_at, class, cause, parked_at)
SELECT b.topic, b.key, e.id, e.event_id::text, coalesce(e.event_type::text, ''), CASE WHEN e.status IN (%[3]s) THEN %[5]s ELSE 0 END, CASE WHEN e.status IN (%[3]s) THEN %[6]s END,
 CASE WHEN e.status IN (%[3]s) THEN $1 ELSE $2 END, CASE WHEN e.status IN (%[3]s) THEN %[7]s ELSE '' END, clock_timestamp()
FROM %[1]s e JOIN blocked b ON b.key = coalesce(nullif(e.aggregate_id::text, ''), '#' || e.id) AND b.topic = %[2]s
WHERE e.status IN (%[3]s, %[4]s) AND e.id <= (SELECT high_id FROM settle_adoption) ORDER BY e.id ON CONFLICT DO NOTHING`

	// The others that wait are the backlog, listed piece by piece.
	listWaiting = `WITH piece AS MATERIALIZED (SELECT e.id FROM %[1]s e, settle_adoption s WHERE e.status IN (%[2]s) AND e.id > s.listed_id AND e.id <= s.high_id ORDER BY e.id LIMIT $1),
 put AS (INSERT INTO t_outbox_extra (id, reason, added_at) SELECT s.id, 'backlog', clock_timestamp() FROM piece s
  WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = s.id) ON CONFLICT DO NOTHING)
UPDATE settle_adoption SET listed_id = CASE WHEN n.rows = $1 THEN n.last ELSE high_id END FROM (SELECT count(*) AS rows, max(id) AS last FROM piece) n
RETURNING listed_id >= high_id`

	// The relay begins behind the highest id. Of the ids just below it that have
	// no row, some may be those of transactions that are open.
	beginLog = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at)
SELECT 0, coalesce(c.epoch, 0), coalesce(c.number, 0) + 1, json_build_array(json_build_object('destination', '', 'cursor', s.high_id, 'cursor_event', coalesce((SELECT e.event_id::text FROM %[1]s e WHERE e.id = s.high_id), ''), 'open',
 coalesce((SELECT json_agg(g ORDER BY g) FROM generate_series(greatest(1, s.high_id - $1::bigint), s.high_id) g WHERE NOT EXISTS (SELECT 1 FROM %[1]s e WHERE e.id = g)), '[]'))), clock_timestamp()
FROM settle_adoption s LEFT JOIN LATERAL (SELECT epoch, number FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
WHERE s.high_id > 0 OR c.epoch IS NOT NULL`

	finishAdoption = `UPDATE settle_adoption SET adopted_at = clock_timestamp()`
)

const (
	// A relay that leads would go on from what it has in memory.
	anybodyLeads = `SELECT owner FROM t_outbox_lease l WHERE NOT clean AND EXISTS (SELECT 1 FROM settle_renewal r
WHERE r.scope = $1 AND r.name = l.lane::text AND r.epoch = l.epoch AND r.expires_at > clock_timestamp()) FOR UPDATE`

	wasDivided = `SELECT EXISTS (SELECT 1 FROM t_outbox_lease WHERE lane <> 0)`

	// What the other relay has not sent says so itself. What our own has given
	// up, and what a person has asked for, stays.
	forgetPosition = `WITH gone AS (DELETE FROM t_outbox_extra WHERE message_id = ''), put AS (DELETE FROM t_outbox_delayed), cold AS (DELETE FROM t_outbox_gap),
 parked AS (DELETE FROM t_outbox_parked p WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked d WHERE d.destination = p.destination AND d.aggregate_id = p.aggregate_id AND d.dead))
UPDATE settle_adoption SET adopted_at = NULL, high_id = NULL, listed_id = 0, foreign_id = 0, foreign_rows = 0, foreign_seen_at = NULL`
)

// forget makes the adoption an unfinished one, so that all begins anew.
func (a *Adopt) forget(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var owner string
		err := tx.QueryRow(ctx, anybodyLeads, relayScope).Scan(&owner)
		switch {
		case err == nil:
			return fmt.Errorf("a relay of Settle is at work (%s); stop it, and begin anew then: %w", owner, migrate.ErrNotAdoptable)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		var divided bool
		if err := tx.QueryRow(ctx, wasDivided).Scan(&divided); err != nil {
			return err
		}
		if divided {
			return fmt.Errorf("its lanes were changed since it was adopted: take Settle's tables back (settle migrate down --to 0) and adopt it as at the first time: %w", migrate.ErrNotAdoptable)
		}
		// Crash here: the next run lists from the start.
		_, err = tx.Exec(ctx, forgetPosition)
		return err
	})
}

const (
	// listRows is how many rows are listed in one transaction.
	listRows = 50_000
	// openBelow is how far below the highest id a missing one is awaited.
	openBelow = 2000
)

func (a *Adopt) list(ctx context.Context, conn *pgx.Conn, d *adoption) error {
	s := a.listing(d)
	if _, err := conn.Exec(ctx, s.highest); err != nil {
		return err
	}
	if !d.StatusIndex {
		if err := a.wait(ctx, conn, d); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, s.park, string(settle.ClassPublish), string(settle.ClassFollower)); err != nil {
		return fmt.Errorf("park keys that are to be retried: %w", err)
	}
	// Crash here: what was parked or listed stays so, and the next run goes on
	// behind it.
	for done := false; !done; {
		if err := conn.QueryRow(ctx, s.list, listRows).Scan(&done); err != nil {
			return fmt.Errorf("list rows that wait: %w", err)
		}
	}
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.begin, openBelow); err != nil {
			return fmt.Errorf("write the first checkpoint: %w", err)
		}
		_, err := tx.Exec(ctx, finishAdoption)
		return err
	})
}

// listing are the statements of list for one table.
type listing struct{ highest, park, list, begin string }

func (a *Adopt) listing(d *adoption) listing {
	attempts, cause := "0", "''"
	if d.Has("retry_count") {
		attempts = "coalesce(e.retry_count, 0)"
	}
	if d.Has("last_error") {
		cause = "coalesce(e.last_error, '')"
	}
	retry, pending := d.words(migrate.StatusRetry), d.words(migrate.StatusPending)
	return listing{
		highest: fmt.Sprintf(settleHighest, d.table()),
		park:    fmt.Sprintf(parkRetried, d.table(), d.topic(), retry, pending, attempts, d.zoned("next_retry_time"), cause),
		list:    fmt.Sprintf(listWaiting, d.table(), d.words(migrate.StatusPending, migrate.StatusRetry)),
		begin:   fmt.Sprintf(beginLog, d.table()),
	}
}

const tableOwners = `SELECT k.virtualtransaction, coalesce('process ' || k.pid, 'a prepared transaction') FROM pg_locks k
WHERE k.locktype = 'relation' AND k.granted AND k.mode = 'RowExclusiveLock' AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND k.relation IN (SELECT to_regclass($1)::oid UNION ALL SELECT relid::oid FROM pg_partition_tree(to_regclass($1)))`

// wait waits for the transactions that hold the table now: what they commit
// could not be found later.
func (a *Adopt) wait(ctx context.Context, conn *pgx.Conn, d *adoption) error {
	first, err := a.owners(ctx, conn, d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := a.owners(context.WithoutCancel(ctx), conn, d)
		if err != nil {
			return err
		}
		var left []string
		for virtual, who := range first {
			if _, open := now[virtual]; open {
				left = append(left, who)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the table has no index on its status, so what is inserted late can't be found, and transactions that write to it are still open: %s; end them, give them longer with --wait, or CREATE INDEX CONCURRENTLY ON %s (status, id): %w",
				strings.Join(left, ", "), d.plainName(), migrate.ErrNotAdoptable)
		case <-tick.C:
		}
	}
}

func (a *Adopt) owners(ctx context.Context, conn *pgx.Conn, d *adoption) (map[string]string, error) {
	rows, err := conn.Query(ctx, tableOwners, d.table())
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	var virtual, who string
	_, err = pgx.ForEachRow(rows, []any{&virtual, &who}, func() error {
		all[virtual] = who
		return nil
	})
	return all, err
}
