package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	// A row that came since the partition was looked at changes one or the other.
	fingerprint = `SELECT count(*), coalesce(sum(id), 0)::text FROM ONLY %s`

	// Whoever comes late into these waits; what goes on above them does not.
	keepPartition = `LOCK TABLE ONLY %s, ONLY %s IN SHARE ROW EXCLUSIVE MODE`

	// A row stays unless retainRows would delete it: the two say the same, this
	// one for so many rows that each side table is better read once.
	stayingRows = `WITH reader AS MATERIALIZED (SELECT r.destination, r.cursor,
  (SELECT coalesce(range_agg(int8range(o.first_id, o.last_id, '[]')), '{}') FROM v_outbox_open o WHERE o.destination = r.destination) AS open FROM v_outbox_reader r),
 gap AS MATERIALIZED (SELECT coalesce(range_agg(int8range(first_id, last_id, '[]')), '{}') AS ids FROM t_outbox_gap WHERE first_id < $3 AND last_id >= $2)
SELECT count(*), coalesce(sum(r.id), 0)::text, coalesce(array_agg(r.id) FILTER (WHERE NOT r.done), '{}') FROM
 (SELECT e.id, e.appended_at < $1 AND e.id <= coalesce(o.cursor, m.cursor, 0) AND NOT e.id <@ coalesce(o.open, m.open, '{}') AND NOT e.id <@ gap.ids
   AND e.id NOT IN (SELECT id FROM t_outbox_parked WHERE id >= $2 AND id < $3) AND e.id NOT IN (SELECT id FROM t_outbox_delayed WHERE id >= $2 AND id < $3)
   AND e.id NOT IN (SELECT id FROM t_outbox_extra WHERE id >= $2 AND id < $3) AS done
 FROM ONLY %s e CROSS JOIN gap LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> ''
 WHERE e.id >= $2 AND e.id < $3) r`

	listedSince = `SELECT id FROM t_outbox_parked WHERE id >= $1 AND id < $2 UNION SELECT id FROM t_outbox_delayed WHERE id >= $1 AND id < $2
UNION SELECT id FROM t_outbox_extra WHERE id >= $1 AND id < $2`

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
	// lookedIDs is how many ids of a partition one call looks at: what reads and
	// commits wait for meanwhile.
	lookedIDs = 20_000
	// sealedBytes is how large the highest partition may be that gets an end: it
	// is read to see that no row is behind it.
	sealedBytes = 32 << 20
)

// keepPartitions drops partitions of which every row would be deleted, one where
// it has limit rows, and makes others ahead. It returns how many rows went, or are
// found to go, and the time before which rows are to be deleted one by one: in partitions
// that is twice as long ago, for most go with their partition.
func (l *Log) keepPartitions(ctx context.Context, lease relay.Lease, before time.Time, limit int) (gone int, rest time.Time, err error) {
	if l.s.adopted != nil {
		return 0, before, nil
	}
	if err := l.s.lookWhetherPartitioned(ctx, l.s.own); err != nil || !l.s.partitioned.Load() {
		return 0, before, explain(err)
	}
	for range steps {
		k := keeping{l: l, lease: lease, before: before.UTC()}
		if err := k.once(ctx); err != nil {
			return gone, before, err
		}
		gone += k.gone
		if rest = k.rest(l.s.now()); !k.goesOn || gone >= limit {
			break
		}
	}
	return gone, rest, nil
}

// steps is how many changes, or looks, one call makes where few rows are found.
const steps = 20

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
	stay    []int64
	// swapped is whether anything has changed, goesOn whether there may be more to
	// do at once, and gone how many rows went or are found to go with the rest.
	swapped, goesOn bool
	gone            int
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
	if ctx.Err() == nil && (hasState(err, stateLockTimeout) || hasState(err, stateDeadlock) || hasState(err, stateTooLong)) {
		k.goesOn = false
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

// retire looks at the rows of a partition that may go. When all were looked at
// it has the lowest partition written anew, with those that may not.
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
	x := k.l.examined(old, k.lease.Epoch)
	if err := k.look(ctx, x); err != nil || x.next < old.until || len(x.stay) > keptRows {
		return err
	}
	lowest := k.parts[0]
	var low int
	if err := k.tx.QueryRow(ctx, fmt.Sprintf(countLowest, lowest.name), keptRows+1).Scan(&low); err != nil || len(x.stay)+low > keptRows {
		return err
	}
	if same, err := k.keep(ctx, lowest, x); err != nil || !same {
		return err
	}
	return k.replace(ctx, lowest, x, low > 0)
}

// look goes on with a partition. Rows that are done count as gone: they go with
// it, and whoever asks goes on as fast as if they had.
func (k *keeping) look(ctx context.Context, x *examining) error {
	if x.next >= x.of.until {
		return nil
	}
	to := min(x.next+lookedIDs, x.of.until)
	var rows int64
	var sum string
	var stay []int64
	if err := k.tx.QueryRow(ctx, fmt.Sprintf(stayingRows, x.of.name), k.before, x.next, to).Scan(&rows, &sum, &stay); err != nil {
		return err
	}
	x.next = to
	x.took(rows, sum, stay)
	k.gone, k.goesOn = x.report(), x.next < x.of.until
	return nil
}

// keep has late rows wait, and reports whether the partition is as it was when it
// was looked at. What was listed since then stays, too.
func (k *keeping) keep(ctx context.Context, lowest partition, x *examining) (same bool, err error) {
	// A person may be listing one of its rows to be sent again.
	if _, err := k.tx.Exec(ctx, keepRows); err != nil {
		return false, err
	}
	if _, err := k.tx.Exec(ctx, fmt.Sprintf(keepPartition, lowest.name, x.of.name)); err != nil {
		return false, err
	}
	var rows int64
	var sum string
	if err := k.tx.QueryRow(ctx, fmt.Sprintf(fingerprint, x.of.name)).Scan(&rows, &sum); err != nil {
		return false, err
	}
	if !x.is(rows, sum) {
		k.l.examineAnew()
		return false, nil
	}
	k.stay = slices.Clone(x.stay)
	var id int64
	return true, each(ctx, k.tx, []any{&id}, func() { k.stay = append(k.stay, id) }, listedSince, x.of.from, x.of.until)
}

// replace writes the lowest partition anew.
func (k *keeping) replace(ctx context.Context, lowest partition, x *examining, low bool) error {
	now := withRange(noFirst, x.of.until)
	for _, step := range now.made() {
		if _, err := k.tx.Exec(ctx, step, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if low {
		if _, err := k.tx.Exec(ctx, fmt.Sprintf(keepLowest, now.name, lowest.name)); err != nil {
			return err
		}
	}
	var err error
	if len(k.stay) > 0 {
		_, err = k.tx.Exec(ctx, fmt.Sprintf(keepStaying, now.name, x.of.name), k.stay)
	} else {
		_, err = k.tx.Exec(ctx, mergeRetired, x.of.from, x.of.until)
	}
	k.drop, k.attach = []partition{lowest, x.of}, []partition{now}
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
		k.swapped, k.goesOn = true, len(k.drop) > 0
		k.l.putOff(time.Time{})
		if k.goesOn {
			k.l.examineAnew()
		}
	}
	return err
}
