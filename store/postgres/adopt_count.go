package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/migrate"

	"github.com/settlemq/settle/store/outboxlog"
)

const (
	idSource = `SELECT CASE WHEN a.attidentity <> '' THEN 'identity' ELSE 'sequence' END, s.seqincrement, s.seqcache, s.seqrelid::regclass::text,
 has_sequence_privilege(s.seqrelid, 'USAGE') OR has_sequence_privilege(s.seqrelid, 'SELECT')
FROM pg_attribute a JOIN pg_sequence s ON s.seqrelid = pg_get_serial_sequence($1, 'id')::regclass WHERE a.attrelid = to_regclass($1) AND a.attname = 'id'`
	newestIDs = `SELECT id FROM (SELECT id FROM %s ORDER BY id DESC LIMIT 5000) newest ORDER BY id`
	idIndex   = `SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'id')`
)

// ids looks at where ids come from: the order per key rests on it.
func (a *Adopt) ids(ctx context.Context, l *adoptLook) error {
	table := l.adoption.table()
	var indexed bool
	if err := l.conn.QueryRow(ctx, idIndex, table).Scan(&indexed); err != nil {
		return err
	}
	if !indexed {
		l.Refuse("no index begins with the id of %s; CREATE UNIQUE INDEX CONCURRENTLY ON %[1]s (id)", l.Plan.Table)
		return nil
	}
	var source, sequence string
	readable, increment, cache := true, int64(1), int64(1)
	err := l.conn.QueryRow(ctx, idSource, table).Scan(&source, &increment, &cache, &sequence, &readable)
	if errors.Is(err, pgx.ErrNoRows) {
		source, err = "given by the application", nil
	}
	if err != nil {
		return err
	}
	if !readable { // it tells whether the table was restored or emptied
		l.Refuse("the role may not read %s: GRANT SELECT ON SEQUENCE %[1]s TO …", sequence)
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(newestIDs, table))
	if err != nil {
		return err
	}
	newest, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	l.IDs(source, newest, max(outboxlog.BlockSize(newest, increment, 1), cache))
	return nil
}

const (
	countWaiting = `SELECT count(*), count(*) FILTER (WHERE %s > clock_timestamp() + interval '10 s') FROM (SELECT * FROM %s e WHERE e.status IN (%s) LIMIT %d) e`
	holders      = `SELECT coalesce(a.pid::text, 'prepared transaction'), coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, 0)
FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid
WHERE k.locktype = 'relation' AND k.granted AND k.mode = 'RowExclusiveLock' AND k.pid IS DISTINCT FROM pg_backend_pid()
AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND k.relation IN (SELECT to_regclass($1)::oid UNION ALL SELECT relid::oid FROM pg_partition_tree(to_regclass($1))) ORDER BY a.xact_start LIMIT 20`
	relaysOf = `SELECT pid::text, coalesce(usename::text, ''), coalesce(application_name, '') FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND query ~* ('\m' || $1 || '\M') AND (query ~* '\mskip\s+locked\M' OR query ~* '^\s*update\M') ORDER BY pid LIMIT 5`
)

func (a *Adopt) count(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	due := "NULL::timestamptz"
	if d.Has("next_retry_time") {
		due = "(" + d.zoned("next_retry_time") + ")"
	}
	var late int64
	pending := fmt.Sprintf(countWaiting, due, d.table(), d.words(migrate.StatusPending), migrate.CountLimit)
	if err := l.conn.QueryRow(ctx, pending).Scan(&l.Plan.Send, &l.Plan.Delayed); err != nil {
		return err
	}
	retry := fmt.Sprintf(countWaiting, due, d.table(), d.words(migrate.StatusRetry), migrate.CountLimit)
	if err := l.conn.QueryRow(ctx, retry).Scan(&l.Plan.Retry, &late); err != nil {
		return err
	}
	l.Plan.Send += l.Plan.Retry
	l.Leave()
	return nil
}

// others looks at who else works on the table now.
func (a *Adopt) others(ctx context.Context, l *adoptLook) error {
	rows, err := l.conn.Query(ctx, holders, l.adoption.table())
	if err != nil {
		return err
	}
	var pid, user, name string
	var age int64
	_, err = pgx.ForEachRow(rows, []any{&pid, &user, &name, &age}, func() error {
		l.Plan.Holders = append(l.Plan.Holders, fmt.Sprintf("%s of %s %s, open for %d s", pid, user, name, age))
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = l.conn.Query(ctx, relaysOf, l.adoption.Name)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&pid, &user, &name}, func() error {
		l.Note("process %s of %s %s may be a relay that works on the table: stop it before Settle's begins, or both send", pid, user, name)
		return nil
	})
	return err
}
