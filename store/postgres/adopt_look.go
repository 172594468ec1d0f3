package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/adopt"
)

// adoptLook is what is found of a table in this database.
type adoptLook struct {
	adopt.Look
	conn             *pgx.Conn
	adoption, before *adoption
	// shared is the consume log that is there, nil for none; alone is true where
	// there is no outbox beside it.
	shared *sharedLog
	alone  bool
	// own: the schema has an outbox of its own.
	own bool
}

func (a *Adopt) newLook(conn *pgx.Conn) *adoptLook {
	l := &adoptLook{conn: conn, adoption: &adoption{Outbox: adopt.Outbox{Columns: map[string]string{}}}}
	l.Config, l.Outbox = a.cfg, &l.adoption.Outbox
	l.Plan.Schema, l.Plan.Place, l.Plan.Reach = a.schema, "schema "+a.schema, "?search_path="+a.schema
	return l
}

func (a *Adopt) look(ctx context.Context, conn *pgx.Conn) (*adoptLook, error) {
	l := a.newLook(conn)
	if err := a.present(ctx, l); err != nil {
		return l, err
	}
	if err := a.consumeLog(ctx, l); err != nil || l.alone || l.Refused() {
		return l, err
	}
	if l.own {
		l.Refuse("schema %s has an outbox of its own; name another for Settle's tables in the URL: ?search_path=settle", a.schema)
		return l, nil
	}
	if err := a.find(ctx, l); err != nil || l.Refused() {
		return l, err
	}
	for _, step := range []func(context.Context, *adoptLook) error{
		a.columns, a.zone, a.payload, a.topics, a.statuses, a.ids, a.count, a.others,
	} {
		if err := step(ctx, l); err != nil || l.Refused() {
			return l, err
		}
	}
	l.Changes()
	return l, nil
}

// present reads what was decided before.
func (a *Adopt) present(ctx context.Context, l *adoptLook) error {
	var adopted bool
	if err := l.conn.QueryRow(ctx, `SELECT coalesce(to_regclass(format('%I.settle_adoption', $1::text)) IS NOT NULL, false), coalesce(to_regclass(format('%I.t_outbox_event', $1::text)) IS NOT NULL, false)`, a.schema).Scan(&adopted, &l.own); err != nil {
		return err
	}
	if !adopted {
		return nil
	}
	var err error
	l.before, l.Done, err = readAdoption(ctx, l.conn)
	l.Before, l.Plan.Adopted = l.before.decided(), l.Done && !a.cfg.Again
	return err
}

const findTable = `SELECT n.nspname::text, c.relname::text, c.relkind::text, has_table_privilege(c.oid, 'SELECT'), has_any_column_privilege(c.oid, 'UPDATE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`

func (a *Adopt) find(ctx context.Context, l *adoptLook) error {
	name := a.cfg.Table
	switch {
	case l.before != nil && name == "":
		name = l.before.table()
	case name == "":
		name = "public.t_outbox_event"
	}
	l.Plan.Table = name
	var kind string
	var reads, writes bool
	err := l.conn.QueryRow(ctx, findTable, name).Scan(&l.adoption.Schema, &l.adoption.Name, &kind, &reads, &writes)
	if errors.Is(err, pgx.ErrNoRows) {
		l.Refuse("there is no table %s; name it with its schema: --table sales.t_outbox_event", name)
		return nil
	}
	if hasState(err, "42602") { // invalid_name
		l.Refuse(`%s is not a table's name as SQL writes it; quote what is not plain: --table 'sales."Order Events"'`, name)
		return nil
	}
	if err != nil {
		return err
	}
	l.Plan.Table = l.adoption.plainName()
	l.Decide()
	switch {
	case kind != "r" && kind != "p":
		l.Refuse("%s is not a table", l.Plan.Table)
	case !reads:
		l.Refuse("the role may not read %s: GRANT SELECT ON %[1]s TO …", l.Plan.Table)
	case !writes && l.adoption.Project:
		l.Refuse("the role may not update %s: GRANT UPDATE ON %[1]s TO …, or --project=false, which leaves the status as it is", l.Plan.Table)
	case l.Done && l.before.plainName() != l.Plan.Table:
		l.Refuse("schema %s has adopted %s; a second table needs a schema of its own in the URL", a.schema, l.before.plainName())
	}
	return nil
}

const tableColumns = `SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`

func (a *Adopt) columns(ctx context.Context, l *adoptLook) error {
	rows, err := l.conn.Query(ctx, tableColumns, l.adoption.table())
	if err != nil {
		return err
	}
	var name, typed string
	_, err = pgx.ForEachRow(rows, []any{&name, &typed}, func() error {
		l.Column(name, typed)
		return nil
	})
	if err == nil {
		l.Columns(readable)
	}
	return err
}

// readable reports whether a column can be read as what it is to be.
func readable(name, typed string) bool {
	base, _, _ := strings.Cut(typed, "(")
	switch name {
	case "id":
		return base == "bigint"
	case "payload":
		return slices.Contains([]string{"jsonb", "json", "text", "character varying", "bytea"}, base)
	case "headers":
		return slices.Contains([]string{"jsonb", "json", "text", "character varying"}, base)
	case "created_at", "updated_at", "next_retry_time":
		return strings.HasPrefix(typed, "timestamp")
	case "retry_count":
		return slices.Contains([]string{"smallint", "integer", "bigint"}, base)
	case "last_error":
		return base == "text" || base == "character varying"
	}
	return true
}

func (a *Adopt) topics(_ context.Context, l *adoptLook) error {
	l.Topics()
	return nil
}

const (
	sessionZone = `SELECT current_setting('TimeZone'), EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)`

	// newestIn is how far the newest row's time is ahead of the clock.
	newestIn = `SELECT extract(epoch FROM (created_at AT TIME ZONE $1) - clock_timestamp())::float8 FROM %s ORDER BY id DESC LIMIT 1`
)

func (a *Adopt) zone(ctx context.Context, l *adoptLook) error {
	zone, err := l.zoneOf(ctx, l.Zone())
	if err != nil || l.Refused() {
		return err
	}
	l.adoption.Zone = zone
	l.Plan.Zone = zone
	if !zoneless(l.adoption.Columns["created_at"]) {
		return nil
	}
	var ahead float64
	err = l.conn.QueryRow(ctx, fmt.Sprintf(newestIn, l.adoption.table()), zone).Scan(&ahead)
	if errors.Is(err, pgx.ErrNoRows) {
		l.Unproven()
		return nil
	}
	l.Newest(time.Duration(ahead * float64(time.Second)))
	return err
}

// zoneOf returns a zone if the database knows it; that of the session if none
// is wanted.
func (l *adoptLook) zoneOf(ctx context.Context, want string) (string, error) {
	var session string
	var known bool
	if err := l.conn.QueryRow(ctx, sessionZone, want).Scan(&session, &known); err != nil {
		return "", err
	}
	if want != "" && !known {
		l.Refuse("the database knows no time zone %q; SELECT name FROM pg_timezone_names lists them", want)
	}
	return cmp.Or(want, session), nil
}
