package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/relay"
)

const (
	// mayPartition: tables are made and dropped by their owner only.
	mayPartition = `SELECT pg_get_userbyid(relowner) = current_user AND has_schema_privilege(relnamespace, 'CREATE') FROM pg_class WHERE oid = settle_outbox_table()`

	// readBy is the cursor of the reader that is behind all others.
	readBy = `SELECT coalesce((SELECT min(cursor) FROM v_outbox_reader), 0), coalesce(pg_sequence_last_value(pg_get_serial_sequence(settle_outbox_table()::text, 'id')::regclass), 0)`

	newestOf = `SELECT appended_at FROM ONLY %s ORDER BY id DESC LIMIT 1`

	// Whoever comes late into these waits; what goes on above them does not.
	keepPartition = `LOCK TABLE ONLY %s, ONLY %s IN SHARE ROW EXCLUSIVE MODE`

	// A row stays unless retainRows would delete it: the two say the same, this
	// one for so many rows that each side table is better read once.
	stayingRows = `WITH reader AS MATERIALIZED (SELECT r.destination, r.cursor,
  (SELECT coalesce(range_agg(int8range(o.first_id, o.last_id, '[]')), '{}') FROM v_outbox_open o WHERE o.destination = r.destination) AS open FROM v_outbox_reader r),
 gap AS MATERIALIZED (SELECT coalesce(range_agg(int8range(first_id, last_id, '[]')), '{}') AS ids FROM t_outbox_gap WHERE first_id < $3 AND last_id >= $2)
SELECT count(*), coalesce((array_agg(r.id) FILTER (WHERE NOT r.done))[1:$4::integer], '{}') FROM
 (SELECT e.id, e.appended_at < $1 AND e.id <= coalesce(o.cursor, m.cursor, 0) AND NOT e.id <@ coalesce(o.open, m.open, '{}') AND NOT e.id <@ gap.ids
   AND e.id NOT IN (SELECT id FROM t_outbox_parked WHERE id >= $2 AND id < $3) AND e.id NOT IN (SELECT id FROM t_outbox_delayed WHERE id >= $2 AND id < $3)
   AND e.id NOT IN (SELECT id FROM t_outbox_extra WHERE id >= $2 AND id < $3) AS done
 FROM ONLY %s e CROSS JOIN gap LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '') r`

	countLowest = `SELECT count(*) FROM (SELECT FROM ONLY %s LIMIT $1) low`

	keepLowest  = `INSERT INTO %s SELECT * FROM ONLY %s`
	keepStaying = `INSERT INTO %s SELECT * FROM ONLY %s WHERE id = ANY($1)`

	// See mergeGaps.
	mergeRetired = `WITH gone AS (DELETE FROM t_outbox_gap g WHERE g.first_id >= $1 AND g.last_id < $2
 AND NOT EXISTS (SELECT 1 FROM v_outbox_open o WHERE o.first_id < $2 AND o.last_id >= $1)
 RETURNING first_id, last_id, recorded_at)
INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT min(first_id), max(last_id), min(recorded_at) FROM gone HAVING count(*) > 0`

	sizeOf       = `SELECT pg_relation_size($1::regclass)`
	straysBehind = `SELECT EXISTS (SELECT FROM ONLY %s WHERE id >= $1)`

	// What is done while nobody uses the outbox is one message, with the commit:
	// who sends it and is stopped keeps nobody. Who comes meanwhile waits, so the
	// lock is given up when it is not had at once.
	swapBegins = `SELECT set_config('lock_timeout', $5::text, true); LOCK TABLE ONLY t_outbox_event IN ACCESS EXCLUSIVE MODE`
)

const (
	// swapWait is how long inserts may have to wait for a change of partitions
	// that then is not made.
	swapWait = 50 * time.Millisecond
	// keptRows is how many rows are taken over when a partition goes.
	keptRows = 20_000
	// sealedBytes is how large the highest partition may be that gets an end: it
	// is read to see that no row is behind it.
	sealedBytes = 32 << 20
)

// keepPartitions drops partitions of which every row would be deleted, at most
// about limit rows' worth, and makes others ahead. It returns how many rows went,
// and the time before which rows are to be deleted one by one: in partitions
// that is twice as long ago, for most go with their partition.
func (l *Log) keepPartitions(ctx context.Context, lease relay.Lease, before time.Time, limit int) (gone int, rest time.Time, err error) {
	if l.s.adopted != nil {
		return 0, before, nil
	}
	for {
		k := keeping{l: l, lease: lease, before: before.UTC()}
		if err := k.once(ctx); err != nil {
			return gone, before, err
		}
		l.s.partitioned.Store(k.is)
		gone += k.gone
		if !k.retired || gone >= limit {
			return gone, k.rest(l.s.now()), nil
		}
	}
}

// keeping is one change of the partitions: one transaction.
type keeping struct {
	l      *Log
	lease  relay.Lease
	before time.Time

	tx pgx.Tx
	layoutFound
	may         bool
	read, given int64

	drop    []partition
	attach  []partition
	extends extension
	// swapped is whether anything has changed, retired whether a partition went,
	// and gone how many of its rows.
	swapped, retired bool
	gone             int
}

// rest is the time before which rows are deleted one by one.
func (k *keeping) rest(now time.Time) time.Time {
	if keepFor := now.Sub(k.before); k.may && !k.before.IsZero() && keepFor > 0 {
		return k.before.Add(-keepFor)
	}
	return k.before
}

func (k *keeping) once(ctx context.Context) error {
	err := k.inTransaction(ctx)
	if hasState(err, stateLockTimeout) || hasState(err, stateDeadlock) {
		k.retired, k.gone = false, 0
		k.l.putOff(k.l.s.now())
		err = nil
	}
	k.l.s.left(err)
	return fenced(err)
}

// inTransaction changes the partitions, if anything is to be changed. That
// commits by itself.
func (k *keeping) inTransaction(ctx context.Context) error {
	conn, err := k.l.s.own.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if k.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return err
	}
	if _, err = k.tx.Exec(ctx, writeSettings, k.l.settings()...); err == nil {
		err = k.change(ctx)
	}
	if err == nil && k.swapped {
		return nil
	}
	return errors.Join(err, k.tx.Rollback(context.WithoutCancel(ctx)))
}

func (k *keeping) change(ctx context.Context) (err error) {
	if k.layoutFound, err = findPartitions(ctx, k.tx); err != nil || !k.is || !k.whole {
		return err
	}
	if err := k.tx.QueryRow(ctx, mayPartition).Scan(&k.may); err != nil || !k.may {
		return err
	}
	if k.l.isPutOff(k.l.s.now()) {
		return nil
	}
	if err := k.tx.QueryRow(ctx, readBy).Scan(&k.read, &k.given); err != nil {
		return err
	}
	if err := k.retire(ctx); err != nil {
		return err
	}
	if err := k.extend(ctx); err != nil {
		return err
	}
	return k.swap(ctx)
}

// retire has the lowest partition written anew without that which goes.
func (k *keeping) retire(ctx context.Context) error {
	old, may := k.parts.retired(k.read, k.given)
	if !may || k.before.IsZero() {
		return nil
	}
	var newest pgtype.Timestamptz
	err := k.tx.QueryRow(ctx, fmt.Sprintf(newestOf, old.name)).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) || newest.Valid && !newest.Time.Before(k.before) {
		return err
	}
	lowest := k.parts[0]
	// A person may be listing one of its rows to be sent again.
	if _, err := k.tx.Exec(ctx, keepRows); err != nil {
		return err
	}
	if _, err := k.tx.Exec(ctx, fmt.Sprintf(keepPartition, lowest.name, old.name)); err != nil {
		return err
	}
	var rows, low int
	var stay []int64
	if err := k.tx.QueryRow(ctx, fmt.Sprintf(stayingRows, old.name), k.before, old.from, old.until, keptRows+1).Scan(&rows, &stay); err != nil {
		return err
	}
	if err := k.tx.QueryRow(ctx, fmt.Sprintf(countLowest, lowest.name), keptRows+1).Scan(&low); err != nil || len(stay)+low > keptRows {
		return err
	}
	now := withRange(noFirst, old.until)
	for _, step := range now.made() {
		if _, err := k.tx.Exec(ctx, step, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if low > 0 {
		if _, err := k.tx.Exec(ctx, fmt.Sprintf(keepLowest, now.name, lowest.name)); err != nil {
			return err
		}
	}
	if len(stay) > 0 {
		_, err = k.tx.Exec(ctx, fmt.Sprintf(keepStaying, now.name, old.name), stay)
	} else {
		_, err = k.tx.Exec(ctx, mergeRetired, old.from, old.until)
	}
	k.drop, k.attach = []partition{lowest, old}, []partition{now}
	k.gone = rows - len(stay)
	return err
}

// extend makes partitions ahead where few are left. A highest partition that is
// large would have to be read whole while everybody waits: it stays without an
// end, until a person asks for one.
func (k *keeping) extend(ctx context.Context) error {
	e, due := k.parts.extended(k.given)
	if !due {
		return nil
	}
	var size int64
	if err := k.tx.QueryRow(ctx, sizeOf, e.was.name).Scan(&size); err != nil || size > sealedBytes {
		return err
	}
	steps, err := extending(ctx, k.tx, e)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if _, err := k.tx.Exec(ctx, step, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	k.extends = e
	return nil
}

// extending is the SQL that makes partitions ahead, up to where they are attached.
func extending(ctx context.Context, q querying, e extension) ([]string, error) {
	var strays bool
	if err := q.QueryRow(ctx, fmt.Sprintf(straysBehind, e.was.name), e.sealed.until).Scan(&strays); err != nil {
		return nil, err
	}
	steps := e.prepared()
	if strays {
		steps = append(steps, e.strays()...)
	}
	return steps, nil
}

// swap puts what was made in the place of what goes.
//
// Crash here: before the commit all is as it was; after it, all of it has changed.
func (k *keeping) swap(ctx context.Context) error {
	steps := []string{swapBegins}
	if len(k.drop) > 0 {
		steps = append(steps, "DROP TABLE "+k.drop[0].name+", "+k.drop[1].name, k.attach[0].attached())
	}
	if len(k.extends.added) > 0 {
		steps = append(steps, k.extends.swapped()...)
	}
	if len(steps) == 1 {
		return nil
	}
	steps = append(steps, fence, "COMMIT")
	_, err := k.tx.Exec(ctx, strings.Join(steps, ";\n"), pgx.QueryExecModeSimpleProtocol,
		k.lease.Lane, k.lease.Owner, leaderEpoch(k.lease), k.l.serverRun(), ms(swapWait))
	if err == nil {
		k.swapped, k.retired = true, len(k.drop) > 0
		k.l.putOff(time.Time{})
	}
	return err
}

// What could not be had is asked for less and less often: each time, inserts may
// wait for swapWait, and all of a partition is read.
const (
	firstPause = 10 * time.Second
	lastPause  = 10 * time.Minute
)

// puttingOff is a change of partitions that somebody was in the way of.
type puttingOff struct {
	pause time.Duration
	until time.Time
}

// putOff asks again later, or with no time at once.
func (l *Log) putOff(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.IsZero() {
		l.swaps = puttingOff{}
		return
	}
	l.swaps.pause = min(max(firstPause, 2*l.swaps.pause), lastPause)
	l.swaps.until = now.Add(l.swaps.pause)
}

func (l *Log) isPutOff(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.swaps.until)
}
