package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

// A table's list is empty for rights that are all there.
const missingRights = `SELECT c.relname::text, coalesce((SELECT string_agg(r, ', ' ORDER BY nth) FROM unnest(w.rights) WITH ORDINALITY r(r, nth)
 WHERE NOT has_table_privilege(c.oid, r)), '')
FROM (SELECT unnest($1::text[]) AS name, string_to_array(unnest($2::text[]), ' ') AS rights) w
JOIN pg_class c ON c.relname = w.name AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) ORDER BY c.relname`

// neededRights is what relays, consumers and governance do with a table. A
// lock for a row that is to be deleted asks for UPDATE.
func (x *examination) neededRights(w wanted) string {
	switch {
	case w.kind == wantView, w.name == migrate.Table:
		return "SELECT"
	case w.name == "t_audit":
		return "SELECT INSERT"
	case x.foreignColumn(w):
		return "SELECT UPDATE"
	}
	return "SELECT INSERT UPDATE DELETE"
}

func (x *examination) privileges(ctx context.Context) (doctor.Diagnosis, error) {
	things, err := x.expected(ctx, wantTable, wantView)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if len(things) > 0 {
		things = append(things, wanted{kind: wantTable, table: migrate.Table, name: migrate.Table})
	}
	var names, rights []string
	for _, w := range things {
		names, rights = append(names, w.name), append(rights, x.neededRights(w))
	}
	lacking := map[string][]string{}
	var kinds []string
	var table, missing string
	err = x.each(ctx, []any{&table, &missing}, func() {
		if missing == "" {
			return
		}
		if lacking[missing] == nil {
			kinds = append(kinds, missing)
		}
		lacking[missing] = append(lacking[missing], table)
	}, missingRights, names, rights)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	slices.Sort(kinds)
	var p problems
	for _, k := range kinds {
		tables := strings.Join(lacking[k], ", ")
		p.add(fmt.Sprintf("%s lacks %s on %s", x.role, k, tables), fmt.Sprintf("GRANT %s ON %s TO %s", k, tables, ident(x.role)))
	}
	for _, look := range []func(context.Context, *problems) error{x.adoptedRights, x.sequenceRights} {
		if err := look(ctx, &p); err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	return p.diagnosis(doctor.Bad, "%s has every right it needs on %d tables and views", x.role, len(things)), nil
}

const tableRights = `SELECT has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), has_any_column_privilege(c.oid, 'UPDATE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`

// adoptedRights are those on the table of another owner.
func (x *examination) adoptedRights(ctx context.Context, p *problems) error {
	if x.adopted == nil {
		return nil
	}
	var enters, reads, writes bool
	err := x.conn.QueryRow(ctx, tableRights, x.adopted.Schema, x.adopted.Name).Scan(&enters, &reads, &writes)
	if errors.Is(err, pgx.ErrNoRows) { // adoption says so
		return nil
	}
	if err != nil {
		return err
	}
	table := x.adopted.plainName()
	for _, w := range []struct {
		has         bool
		right, name string
	}{{enters, "USAGE", "SCHEMA " + ident(x.adopted.Schema)}, {reads, "SELECT", table}, {writes || !x.adopted.Project, "UPDATE", table}} {
		if !w.has {
			p.add(fmt.Sprintf("%s lacks %s on %s", x.role, w.right, w.name), fmt.Sprintf("GRANT %s ON %s TO %s", w.right, w.name, ident(x.role)))
		}
	}
	return nil
}

const idsRights = `SELECT coalesce(s, ''), coalesce(has_sequence_privilege(s, 'SELECT') OR has_sequence_privilege(s, 'USAGE'), true)
FROM (SELECT pg_get_serial_sequence('t_outbox_event', 'id') AS s) ids`

// sequenceRights: a relay asks the sequence which ids were given.
func (x *examination) sequenceRights(ctx context.Context, p *problems) error {
	if !x.numbered() {
		return nil
	}
	var name string
	var may bool
	if err := x.conn.QueryRow(ctx, x.of(idsRights)).Scan(&name, &may); err != nil {
		return err
	}
	if !may {
		p.add(fmt.Sprintf("%s lacks SELECT on sequence %s", x.role, name), fmt.Sprintf("GRANT SELECT ON SEQUENCE %s TO %s", name, ident(x.role)))
	}
	return nil
}

const (
	vacuumOff = `SELECT c.relname::text FROM pg_class c CROSS JOIN LATERAL unnest(c.reloptions) o(option)
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relname = ANY($1)
AND lower(o.option) IN ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0', 'autovacuum_enabled=no') ORDER BY 1`

	manyDead = `SELECT relname::text, n_dead_tup, n_live_tup FROM pg_stat_user_tables
WHERE schemaname = current_schema() AND relname = ANY($1) AND n_dead_tup > greatest($2::bigint, n_live_tup) ORDER BY 1`
)

// fewDead is how many dead rows are nothing to talk about.
const fewDead = 100_000

func (x *examination) vacuum(ctx context.Context) (doctor.Diagnosis, error) {
	things, err := x.expected(ctx, wantTable)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var names []string
	for _, w := range things {
		names = append(names, w.name)
	}
	var p problems
	for _, name := range []string{"autovacuum", "track_counts"} {
		if x.settings[name].value != "on" {
			p.add(name+" is off", x.reset(name, "on"))
		}
	}
	var table string
	err = x.each(ctx, []any{&table}, func() {
		p.add("autovacuum is off for "+table, "ALTER TABLE "+table+" RESET (autovacuum_enabled)")
	}, vacuumOff, names)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var dead, live int64
	err = x.each(ctx, []any{&table, &dead, &live}, func() {
		p.add(fmt.Sprintf("%s has %d dead rows beside %d", table, dead, live), "VACUUM "+table)
	}, manyDead, names, fewDead)
	return p.diagnosis(doctor.Warn, "on for %d tables", len(names)), err
}
