package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

const (
	classicLog = "public.t_message_consume_log"

	// Of columns that must have a value we give only those that we know.
	sharedColumns = `SELECT attname::text, format_type(atttypid, atttypmod), CASE WHEN atttypmod > 4 AND atttypid IN ('varchar'::regtype, 'bpchar'::regtype) THEN atttypmod - 4 ELSE 0 END,
 attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = '' FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`

	sharedUnique = `SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 2
 AND (SELECT count(*) FROM pg_attribute c WHERE c.attrelid = i.indrelid AND c.attnum = ANY(i.indkey) AND c.attname IN ('consumer_group', 'message_id')) = 2)`

	sharedRights = `SELECT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r WHERE NOT has_table_privilege(to_regclass($1), r)`
	sharedIDs    = `SELECT coalesce(pg_get_serial_sequence($1, 'id'), ''), coalesce(has_sequence_privilege(pg_get_serial_sequence($1, 'id'), 'USAGE'), true)`

	// The newest rows show which words are in use.
	newestWords = `SELECT status::text, count(*) FROM (SELECT status FROM %s ORDER BY id DESC LIMIT 100000) n GROUP BY 1 ORDER BY 1`
	someWords   = `SELECT status::text, count(*) FROM (SELECT status FROM %s LIMIT 100000) n GROUP BY 1 ORDER BY 1`

	putSharedLog = `INSERT INTO settle_shared_log (one, decided) VALUES (true, $1::json) ON CONFLICT (one) DO UPDATE SET decided = excluded.decided`
)

// consumeLog looks for a consume log that foreign consumers write to. One that
// nobody has named and that can't be shared is a note.
func (a *Adopt) consumeLog(ctx context.Context, l *adoptLook) error {
	before, err := loadSharedLog(ctx, l.conn)
	if err != nil {
		return err
	}
	name := a.cfg.ConsumeLog
	if name == "" && before != nil {
		name = before.table()
	}
	named := name != ""
	name = cmp.Or(name, classicLog)
	d := &sharedLog{adopt.ConsumeLog{Columns: map[string]string{}, Limits: map[string]int{}}}
	found, err := d.find(ctx, l.conn, name)
	switch {
	case err != nil:
		return err
	case !found && !named:
		return nil
	case !found:
		l.Refuse("there is no consume log %s; name it with its schema: --consume-log sales.t_message_consume_log", name)
		return nil
	}
	reasons, err := a.shape(ctx, l, d, before)
	if err != nil || !l.Share(&d.ConsumeLog, d.plainName(), named, reasons) {
		return err
	}
	l.shared = d
	return a.outboxBeside(ctx, l)
}

// outboxBeside finds whether there is an outbox to be adopted, too.
func (a *Adopt) outboxBeside(ctx context.Context, l *adoptLook) error {
	if a.cfg.Table != "" || l.before != nil {
		return nil
	}
	var there bool
	err := l.conn.QueryRow(ctx, `SELECT to_regclass('public.t_outbox_event') IS NOT NULL`).Scan(&there)
	if l.alone = !there || l.own; l.alone {
		l.Plan.Zone = l.shared.Zone
		l.Note("there is no outbox to adopt: events that producers append are in an outbox of Settle's own in schema %s", a.schema)
	}
	return err
}

const findLog = `SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')`

func (l *sharedLog) find(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	err := conn.QueryRow(ctx, findLog, name).Scan(&l.Schema, &l.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// shape reads what the table is like, and returns what is in the way.
func (a *Adopt) shape(ctx context.Context, l *adoptLook, d *sharedLog, before *sharedLog) (reasons []string, err error) {
	rows, err := l.conn.Query(ctx, sharedColumns, d.table())
	if err != nil {
		return nil, err
	}
	var name, typed string
	var limit int
	var needed bool
	_, err = pgx.ForEachRow(rows, []any{&name, &typed, &limit, &needed}, func() error {
		if reason := d.Column(name, typed, limit, needed, d.plainName()); reason != "" {
			reasons = append(reasons, reason)
		}
		return nil
	})
	if err != nil || !d.Classic() {
		return append(reasons, fmt.Sprintf("%s is no classic consume log: it needs the columns %s", d.plainName(), strings.Join(adopt.ConsumeEssentials(), ", "))), err
	}
	if !strings.HasPrefix(d.Columns["consumed_at"], "timestamp") {
		reasons = append(reasons, fmt.Sprintf("column consumed_at of %s is %s, not a timestamp", d.plainName(), d.Columns["consumed_at"]))
	}
	more, err := d.usable(ctx, l.conn)
	if reasons = append(reasons, more...); err != nil || len(reasons) > 0 {
		return reasons, err
	}
	if err := a.sharedZone(ctx, l, d, before); err != nil {
		return nil, err
	}
	return a.sharedStatuses(ctx, l, d, before)
}

// usable looks at the rights on the table and at what makes a row unique.
func (l *sharedLog) usable(ctx context.Context, conn *pgx.Conn) (reasons []string, err error) {
	var unique, numbers bool
	var sequence string
	if err := conn.QueryRow(ctx, sharedUnique, l.table()).Scan(&unique); err != nil {
		return nil, err
	}
	if !unique {
		reasons = append(reasons, fmt.Sprintf("no unique index is on (consumer_group, message_id) of %s", l.plainName()))
	}
	rows, err := conn.Query(ctx, sharedRights, l.table())
	if err != nil {
		return nil, err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		reasons = append(reasons, fmt.Sprintf("the role has no right to it: GRANT %s ON %s TO …", strings.Join(missing, ", "), l.table()))
	}
	err = conn.QueryRow(ctx, hasColumnID, l.table()).Scan(&numbers)
	if err != nil || !numbers {
		return reasons, err
	}
	var may bool
	if err := conn.QueryRow(ctx, sharedIDs, l.table()).Scan(&sequence, &may); err != nil {
		return nil, err
	}
	if !may {
		reasons = append(reasons, fmt.Sprintf("the role may not number its rows: GRANT USAGE ON SEQUENCE %s TO …", sequence))
	}
	return reasons, nil
}

const hasColumnID = `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'id' AND NOT attisdropped)`

func (a *Adopt) sharedZone(ctx context.Context, l *adoptLook, d, before *sharedLog) error {
	want := a.cfg.Zone
	if before != nil {
		want = cmp.Or(want, before.Zone)
	}
	if l.before != nil {
		want = cmp.Or(want, l.before.Zone)
	}
	var err error
	d.Zone, err = l.zoneOf(ctx, want)
	return err
}

// sharedStatuses finds the words that the log has, and what they mean.
func (a *Adopt) sharedStatuses(ctx context.Context, l *adoptLook, d, before *sharedLog) (reasons []string, err error) {
	given := a.cfg.ConsumeStatus
	if given == nil && before != nil {
		given = before.Status
	}
	var numbers bool
	if err := l.conn.QueryRow(ctx, hasColumnID, d.table()).Scan(&numbers); err != nil {
		return nil, err
	}
	query := someWords
	if numbers {
		query = newestWords
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(query, d.table()))
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s migrate.AdoptStatus, err error) {
		err = row.Scan(&s.Word, &s.Rows)
		return s, err
	})
	if err != nil {
		return nil, err
	}
	reasons = d.Words(given, found, d.plainName())
	l.Plan.ConsumeStatuses = found
	return reasons, nil
}

// putShared writes what was decided of the log. Processes that start from now
// on share it.
func putShared(ctx context.Context, conn *pgx.Conn, d *sharedLog) error {
	if d == nil {
		return nil
	}
	decided, err := json.Marshal(d)
	if err == nil {
		_, err = conn.Exec(ctx, putSharedLog, string(decided))
	}
	return err
}
