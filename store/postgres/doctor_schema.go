package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

func (x *examination) schemaChecks() []check {
	return []check{
		{"schema", "relays, consumers and people write into the tables of this program's version", x.schemaVersion},
		{"tables", "a table, column, view or function that is missing or was changed stops whoever needs it", x.tables},
		{"indexes", "without its index a look-up reads the whole table, and a duplicate is not refused", x.indexes},
		{"triggers", "they tell processes of pauses, and keep the audit from being changed", x.triggers},
		{"privileges", "without its rights the relay or a consumer stops at the first statement that needs them", x.privileges},
		{"autovacuum", "tables whose rows come and go grow without end where nobody vacuums", x.vacuum},
	}
}

const (
	schemaExists  = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`
	newestVersion = `SELECT coalesce(max(version_id), 0) FROM ` + migrate.Table
	mayCreate     = `SELECT has_schema_privilege(current_schema(), 'CREATE')`
)

func (x *examination) schemaVersion(ctx context.Context) (doctor.Diagnosis, error) {
	if r, err := x.noSchema(ctx); r.Found != "" || err != nil {
		return r, err
	}
	things, err := x.wanted(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	version, err := x.presentVersion(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	last := lastVersion(things)
	fix := "settle migrate --db URL, or --dry-run for the SQL; it goes on where an earlier one stopped"
	if version < last {
		var may bool
		if err := x.conn.QueryRow(ctx, mayCreate).Scan(&may); err != nil {
			return doctor.Diagnosis{}, err
		}
		if !may {
			fix += fmt.Sprintf("; by the owner, or GRANT CREATE ON SCHEMA %s TO %s", ident(x.schema), ident(x.role))
		}
	}
	switch {
	case version == 0:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("no tables of Settle in schema %s", x.schema), fix), nil
	case version < last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d in schema %s, this program knows %d", version, x.schema, last), fix), nil
	case version > last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d in schema %s, this program knows only %d", version, x.schema, last), "use the program that migrated it, or a later one"), nil
	}
	return doctor.Sound("version %d in schema %s", version, x.schema), nil
}

// noSchema tells of a search_path that leads to another schema, or nowhere.
func (x *examination) noSchema(ctx context.Context) (doctor.Diagnosis, error) {
	first, _, _ := strings.Cut(x.path, ",")
	first = strings.Trim(strings.TrimSpace(first), `"`)
	if first == "" || first == x.schema {
		if x.schema == "" {
			return doctor.Diagnose(doctor.Bad, "the role has no schema", "name one in the URL (?search_path=schema), or CREATE SCHEMA AUTHORIZATION "+ident(x.role)), nil
		}
		return doctor.Diagnosis{}, nil
	}
	var exists bool
	if err := x.conn.QueryRow(ctx, schemaExists, first).Scan(&exists); err != nil {
		return doctor.Diagnosis{}, err
	}
	switch {
	case !exists:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("there is no schema %s", first), "settle migrate --db URL makes it, or CREATE SCHEMA "+ident(first)), nil
	case x.pooled:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the URL's search_path is %s, and the session works in %q: a pooler has dropped it", x.path, x.schema),
				fmt.Sprintf("ALTER ROLE %s SET search_path = %s", ident(x.role), ident(first))),
			nil
	}
	return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%s may not use schema %s", x.role, first), fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", ident(first), ident(x.role))), nil
}

// presentVersion is 0 where there are no tables.
func (x *examination) presentVersion(ctx context.Context) (version int64, err error) {
	var found bool
	if err := x.conn.QueryRow(ctx, hasOwn).Scan(&found); err != nil || !found {
		return 0, err
	}
	err = x.conn.QueryRow(ctx, newestVersion).Scan(&version)
	return version, err
}

// expected are the things that the present version should have. Of an outbox
// that was there before Settle only what every outbox has is expected.
func (x *examination) expected(ctx context.Context, kinds ...string) ([]wanted, error) {
	things, err := x.wanted(ctx)
	if err != nil {
		return nil, err
	}
	version, err := x.presentVersion(ctx)
	if hasState(err, stateNoRight) { // privileges names it
		version, err = lastVersion(things), nil
	}
	return slices.DeleteFunc(things, func(w wanted) bool {
		foreign := w.table == "t_outbox_event" && x.outbox != nil && x.outbox.classic && w.kind != wantTable && !slices.Contains(essential(), w.name)
		return foreign || w.since > version || !slices.Contains(kinds, w.kind)
	}), err
}

func essential() []string {
	return []string{"id", "event_id", "event_type", "aggregate_id", "payload"}
}

const (
	presentColumns = `SELECT c.relname::text, c.relkind::text, coalesce(a.attname::text, ''), coalesce(format_type(a.atttypid, a.atttypmod), '')
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind IN ('r', 'p', 'v')`

	presentFunctions = `SELECT proname::text FROM pg_proc WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`

	presentIndexes = `SELECT c.relname::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`

	presentTriggers = `SELECT t.tgname::text, t.tgenabled IN ('O', 'A') FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`
)

func (x *examination) tables(ctx context.Context) (doctor.Diagnosis, error) {
	things, err := x.expected(ctx, wantTable, wantColumn, wantView, wantFunction)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	relations, columns := map[string]bool{}, map[[2]string]string{}
	var table, kind, column, typed string
	err = x.each(ctx, []any{&table, &kind, &column, &typed}, func() {
		relations[table] = true
		columns[[2]string{table, column}] = typed
	}, presentColumns)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var function string
	if err := x.each(ctx, []any{&function}, func() { relations[function] = true }, presentFunctions); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	for _, w := range things {
		is, there := columns[[2]string{w.table, w.name}]
		switch {
		case w.kind != wantColumn && !relations[w.name]:
			fix := w.sql
			for _, c := range things {
				if c.added && c.table == w.name {
					fix += "; " + c.sql
				}
			}
			p.add(w.kind+" "+w.name+" is missing", fix)
		case w.kind != wantColumn || !relations[w.table]:
		case !there:
			p.add("column "+w.table+"."+w.name+" is missing", w.sql)
		case is != w.typed && !x.foreignColumn(w):
			p.add(fmt.Sprintf("column %s.%s is %s, want %s", w.table, w.name, is, w.typed),
				fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %[2]s::%[3]s", w.table, ident(w.name), w.typed))
		}
	}
	return p.diagnosis(doctor.Bad, "%d tables, columns, views and functions are there", len(things)), nil
}

// foreignColumn: the types of an adopted outbox are its owner's business.
func (x *examination) foreignColumn(w wanted) bool {
	return w.table == "t_outbox_event" && x.outbox != nil && x.outbox.classic
}

func (x *examination) indexes(ctx context.Context) (doctor.Diagnosis, error) {
	things, err := x.expected(ctx, wantIndex)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	valid := map[string]bool{}
	var name string
	var ok bool
	if err := x.each(ctx, []any{&name, &ok}, func() { valid[name] = ok }, presentIndexes); err != nil {
		return doctor.Diagnosis{}, err
	}
	lean := !slices.ContainsFunc(searchIndexNames(), func(name string) bool { _, there := valid[name]; return there })
	if lean {
		things = slices.DeleteFunc(things, func(w wanted) bool { return slices.Contains(searchIndexNames(), w.name) })
	}
	var p problems
	if x.partitioned.is {
		things = slices.DeleteFunc(things, func(w wanted) bool { return w.name == "u_outbox_event" })
		if err := x.partitionIndexes(ctx, &p); err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	for _, w := range things {
		switch ok, there := valid[w.name]; {
		case !there:
			p.add("index "+w.name+" is missing", w.sql)
		case !ok:
			p.add("index "+w.name+" is not complete", "REINDEX INDEX CONCURRENTLY "+w.name)
		}
	}
	if err := x.classicIndexes(ctx, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	good := "%d indexes are there"
	if lean && x.outbox != nil && !x.outbox.classic && x.adopted == nil {
		good += "; the layout is lean: people find events in the outbox by event id only"
	}
	return p.diagnosis(doctor.Bad, good, len(things)), nil
}

func (x *examination) triggers(ctx context.Context) (doctor.Diagnosis, error) {
	things, err := x.expected(ctx, wantTrigger)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	enabled := map[string]bool{}
	var name string
	var on bool
	if err := x.each(ctx, []any{&name, &on}, func() { enabled[name] = on }, presentTriggers); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	for _, w := range things {
		switch on, there := enabled[w.name]; {
		case !there:
			p.add("trigger "+w.name+" is missing", w.sql)
		case !on:
			p.add("trigger "+w.name+" is switched off", fmt.Sprintf("ALTER TABLE %s ENABLE TRIGGER %s", w.table, w.name))
		}
	}
	return p.diagnosis(doctor.Bad, "%d triggers are there", len(things)), nil
}

// problems collects what one check has found.
type problems struct{ found, fixes []string }

func (p *problems) add(found, fix string) {
	p.found, p.fixes = append(p.found, found), append(p.fixes, fix)
}

func (p *problems) diagnosis(verdict doctor.Verdict, good string, args ...any) doctor.Diagnosis {
	if len(p.found) == 0 {
		return doctor.Sound(good, args...)
	}
	return doctor.Diagnose(verdict, strings.Join(p.found, "; "), strings.Join(slices.Compact(p.fixes), "; "))
}

// wanted is what a schema of this layout has.
func (x *examination) wanted(ctx context.Context) ([]wanted, error) {
	var adopted bool
	if err := x.conn.QueryRow(ctx, readsAdopted).Scan(&adopted); err != nil {
		return nil, err
	}
	files, err := layout(adopted)
	if err != nil {
		return nil, err
	}
	return wantedThings(files)
}
