package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// adoptLook is what is found of a table, and what follows from it.
type adoptLook struct {
	conn     *pgx.Conn
	plan     migrate.AdoptPlan
	adoption *adoption
	// before is what was decided earlier; nil for nothing. done is whether it was
	// carried out.
	before *adoption
	done   bool
	// shared is the consume log that is there, nil for none; alone is true where
	// there is no outbox beside it.
	shared *sharedLog
	alone  bool
	// own: the schema has an outbox of its own.
	own bool
}

func (l *adoptLook) refuse(format string, args ...any) {
	l.plan.Refusals = append(l.plan.Refusals, fmt.Sprintf(format, args...))
}

func (l *adoptLook) note(format string, args ...any) {
	l.plan.Notes = append(l.plan.Notes, fmt.Sprintf(format, args...))
}

func (a *Adopt) look(ctx context.Context, conn *pgx.Conn) (*adoptLook, error) {
	l := &adoptLook{conn: conn, adoption: &adoption{Outbox: adopt.Outbox{Columns: map[string]string{}}}, plan: migrate.AdoptPlan{Schema: a.schema, Place: "schema " + a.schema, Reach: "?search_path=" + a.schema}}
	if err := a.present(ctx, l); err != nil {
		return l, err
	}
	if err := a.consumeLog(ctx, l); err != nil || l.alone || len(l.plan.Refusals) > 0 {
		return l, err
	}
	if l.own {
		l.refuse("schema %s has an outbox of its own; name another for Settle's tables in the URL: ?search_path=settle", a.schema)
		return l, nil
	}
	if err := a.find(ctx, l); err != nil || len(l.plan.Refusals) > 0 {
		return l, err
	}
	for _, step := range []func(context.Context, *adoptLook) error{
		a.columns, a.zone, a.payload, a.topics, a.statuses, a.ids, a.count, a.others,
	} {
		if err := step(ctx, l); err != nil {
			return l, err
		}
		if len(l.plan.Refusals) > 0 {
			return l, nil
		}
	}
	l.changes()
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
	l.before, l.done, err = readAdoption(ctx, l.conn)
	l.plan.Adopted = l.done && !a.cfg.Again
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
	l.plan.Table = name
	var kind string
	var reads, writes bool
	err := l.conn.QueryRow(ctx, findTable, name).Scan(&l.adoption.Schema, &l.adoption.Name, &kind, &reads, &writes)
	if errors.Is(err, pgx.ErrNoRows) {
		l.refuse("there is no table %s; name it with its schema: --table sales.t_outbox_event", name)
		return nil
	}
	if hasState(err, "42602") { // invalid_name
		l.refuse(`%s is not a table's name as SQL writes it; quote what is not plain: --table 'sales."Order Events"'`, name)
		return nil
	}
	if err != nil {
		return err
	}
	l.plan.Table = l.adoption.plainName()
	l.adoption.Project = cmp.Or(a.cfg.Project, projectOf(l.before)) == nil || *cmp.Or(a.cfg.Project, projectOf(l.before))
	l.plan.Project = l.adoption.Project
	switch {
	case kind != "r" && kind != "p":
		l.refuse("%s is not a table", l.plan.Table)
	case !reads:
		l.refuse("the role may not read %s: GRANT SELECT ON %[1]s TO …", l.plan.Table)
	case !writes && l.adoption.Project:
		l.refuse("the role may not update %s: GRANT UPDATE ON %[1]s TO …, or --project=false, which leaves the status as it is", l.plan.Table)
	case l.done && l.before.plainName() != l.plan.Table:
		l.refuse("schema %s has adopted %s; a second table needs a schema of its own in the URL", a.schema, l.before.plainName())
	}
	return nil
}

func projectOf(before *adoption) *bool {
	if before == nil {
		return nil
	}
	return &before.Project
}

const tableColumns = `SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`

// essentials are columns without which a row is no event; the others are
// optional.
func essentials() []string {
	return []string{"id", "event_id", "event_type", "aggregate_id", "payload", "status", "created_at"}
}

func optionals() []string {
	return []string{"aggregate_type", "headers", "retry_count", "next_retry_time", "last_error", "updated_at"}
}

func (a *Adopt) columns(ctx context.Context, l *adoptLook) error {
	rows, err := l.conn.Query(ctx, tableColumns, l.adoption.table())
	if err != nil {
		return err
	}
	var name, typed string
	_, err = pgx.ForEachRow(rows, []any{&name, &typed}, func() error {
		c := migrate.AdoptColumn{Name: name, Type: typed, Read: "left alone: the owner's"}
		if slices.Contains(essentials(), name) || slices.Contains(optionals(), name) {
			l.adoption.Columns[name] = typed
			c.Read = "read"
		}
		l.plan.Columns = append(l.plan.Columns, c)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range essentials() {
		if !l.adoption.Has(name) {
			l.refuse("%s has no column %s", l.plan.Table, name)
		}
	}
	a.types(l)
	return nil
}

// types refuses columns that can't be read as what they are to be.
func (a *Adopt) types(l *adoptLook) {
	for name, typed := range l.adoption.Columns {
		base, _, _ := strings.Cut(typed, "(")
		ok := true
		switch name {
		case "id":
			ok = base == "bigint"
		case "payload":
			ok = slices.Contains([]string{"jsonb", "json", "text", "character varying", "bytea"}, base)
		case "headers":
			ok = slices.Contains([]string{"jsonb", "json", "text", "character varying"}, base)
		case "created_at", "updated_at", "next_retry_time":
			ok = strings.HasPrefix(typed, "timestamp")
		case "retry_count":
			ok = slices.Contains([]string{"smallint", "integer", "bigint"}, base)
		case "last_error":
			ok = base == "text" || base == "character varying"
		}
		if !ok {
			l.refuse("column %s of %s is %s, which can't be read as that", name, l.plan.Table, typed)
		}
	}
	slices.Sort(l.plan.Refusals)
}

func (a *Adopt) topics(_ context.Context, l *adoptLook) error {
	d := l.adoption
	d.Topic, d.TopicOf = a.cfg.Topic, a.cfg.TopicOf
	if l.before != nil {
		d.Topic = cmp.Or(d.Topic, l.before.Topic)
		if len(d.TopicOf) == 0 {
			d.TopicOf = l.before.TopicOf
		}
	}
	d.Topic = cmp.Or(d.Topic, settle.DefaultTopic)
	l.plan.Topics = []string{d.Topic}
	for _, name := range slices.Sorted(maps.Keys(d.TopicOf)) {
		l.plan.Topics = append(l.plan.Topics, d.TopicOf[name]+" for "+name)
	}
	if len(d.TopicOf) > 0 {
		l.note("events of one aggregate that go to several topics have no order among them")
	}
	return nil
}

const (
	sessionZone = `SELECT current_setting('TimeZone'), EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)`

	// newestIn is how far the newest row's time is ahead of the clock.
	newestIn = `SELECT extract(epoch FROM (created_at AT TIME ZONE $1) - clock_timestamp())::float8 FROM %s ORDER BY id DESC LIMIT 1`
)

// clockSkew is how far ahead an application's clock may be.
const clockSkew = time.Minute

func (a *Adopt) zone(ctx context.Context, l *adoptLook) error {
	var session string
	var known bool
	want := a.cfg.Zone
	if l.before != nil {
		want = cmp.Or(want, l.before.Zone)
	}
	if err := l.conn.QueryRow(ctx, sessionZone, want).Scan(&session, &known); err != nil {
		return err
	}
	if want != "" && !known {
		l.refuse("the database knows no time zone %q; SELECT name FROM pg_timezone_names lists them", want)
		return nil
	}
	l.adoption.Zone = cmp.Or(want, session)
	l.plan.Zone = l.adoption.Zone
	if !zoneless(l.adoption.Columns["created_at"]) {
		return nil
	}
	var ahead float64
	err := l.conn.QueryRow(ctx, fmt.Sprintf(newestIn, l.adoption.table()), l.adoption.Zone).Scan(&ahead)
	if errors.Is(err, pgx.ErrNoRows) {
		l.note("there is no row yet whose time could show that the zone is %s", l.adoption.Zone)
		return nil
	}
	if err != nil {
		return err
	}
	off := time.Duration(ahead * float64(time.Second))
	quarter := off.Round(15 * time.Minute)
	switch {
	case off > clockSkew && (off-quarter).Abs() < 5*time.Minute:
		l.refuse("the newest row is %s ahead of the clock if its times are of the zone %s; give the zone of the application that writes them, for instance --zone Asia/Shanghai", off.Round(time.Second), l.adoption.Zone)
	case off > clockSkew:
		l.note("the newest row is %s ahead of the clock", off.Round(time.Second))
	case quarter <= -time.Hour && quarter%(30*time.Minute) == 0 && (off-quarter).Abs() < clockSkew:
		l.note("the newest row is %s old if its times are of the zone %s; if it was written just now, the zone is another", -off.Round(time.Second), l.adoption.Zone)
	}
	return nil
}

// changes lists what differs from what was decided before.
func (l *adoptLook) changes() {
	if l.before == nil || !l.plan.Adopted {
		return
	}
	b, d := l.before, l.adoption
	for _, c := range []struct{ what, was, is string }{
		{"zone", b.Zone, d.Zone}, {"payload", b.Payload, d.Payload}, {"topic", b.Topic, d.Topic},
		{"topics", fmt.Sprint(b.TopicOf), fmt.Sprint(d.TopicOf)}, {"statuses", fmt.Sprint(b.Status), fmt.Sprint(d.Status)},
		{"projection", strconv.FormatBool(b.Project), strconv.FormatBool(d.Project)}, {"columns", differing(b.Columns, d.Columns), differing(d.Columns, b.Columns)},
		{"index on status", strconv.FormatBool(b.StatusIndex), strconv.FormatBool(d.StatusIndex)},
	} {
		if c.was != c.is {
			l.plan.Changes = append(l.plan.Changes, fmt.Sprintf("%s: %s is now %s", c.what, c.was, c.is))
		}
	}
}

// differing lists the columns of a that b has not, or of another type.
func differing(a, b map[string]string) string {
	var columns []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			columns = append(columns, name+" "+a[name])
		}
	}
	return cmp.Or(strings.Join(columns, ", "), "none")
}
