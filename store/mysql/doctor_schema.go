package mysql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

func (x *examination) schemaChecks() []check {
	return []check{
		{"schema", "relays, consumers and people write into the tables of this program's version", x.schemaVersion},
		{"tables", "a table, column or view that is missing or was changed stops whoever needs it", x.tables},
		{"indexes", "without its index a look-up reads the whole table, and a duplicate is not refused", x.indexes},
		{"collations", "in another collation keys that differ in case, accents or trailing space are one key: their events get in each other's way, and one of two ids is refused", x.collations},
		{"engines", "a table of another engine keeps what a rolled-back transaction has written, and may lose it in a crash", x.engines},
		{"privileges", "without its rights the relay or a consumer stops at the first statement that needs them", x.privileges},
		{"process_right", "who owns a missing id, and which transactions are old, is hidden without it: holes are waited for as long as they might be filled", x.processRight},
	}
}

const newestVersion = `SELECT coalesce(max(version_id), 0) FROM ` + migrate.Table

func (x *examination) schemaVersion(ctx context.Context) (doctor.Diagnosis, error) {
	var found bool
	if err := x.db.QueryRowContext(ctx, hasOwn).Scan(&found); err != nil {
		return doctor.Diagnosis{}, err
	}
	if found {
		if err := x.db.QueryRowContext(ctx, newestVersion).Scan(&x.version); err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	last := lastVersion(x.things)
	fix := "settle migrate --db URL, or --dry-run for the SQL; it goes on where an earlier one stopped"
	switch {
	case x.version == 0:
		return doctor.Diagnose(doctor.Bad, "no tables of Settle in database "+x.url.DBName, fix), nil
	case x.version < last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d, this program knows %d", x.version, last), fix), nil
	case x.version > last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d, this program knows only %d", x.version, last), "use the program that migrated it, or a later one"), nil
	}
	return doctor.Sound("version %d in database %s", x.version, x.url.DBName), nil
}

// expected are the things that the present version should have.
func (x *examination) expected(kinds ...string) []wanted {
	var all []wanted
	for _, w := range x.things {
		if w.since <= x.version && slices.Contains(kinds, w.kind) {
			all = append(all, w)
		}
	}
	return all
}

const (
	presentTables  = `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()`
	presentColumns = `SELECT table_name, column_name, column_type, coalesce(collation_name, '') FROM information_schema.columns WHERE table_schema = DATABASE()`
	presentIndexes = `SELECT DISTINCT table_name, index_name FROM information_schema.statistics WHERE table_schema = DATABASE()`
)

type columnShape struct{ typed, collation string }

func (x *examination) columns(ctx context.Context) (map[[2]string]columnShape, error) {
	all := map[[2]string]columnShape{}
	var table, name string
	var is columnShape
	err := each(ctx, x.db, []any{&table, &name, &is.typed, &is.collation}, func() { all[[2]string{table, name}] = is }, presentColumns)
	return all, err
}

// widths are how many digits a client shows, which says nothing of the type.
var widths = regexp.MustCompile(`^(bigint|int)\(\d+\)`)

func (x *examination) tables(ctx context.Context) (doctor.Diagnosis, error) {
	things := x.expected(wantTable, wantColumn, wantView)
	there := map[string]bool{}
	var name string
	if err := each(ctx, x.db, []any{&name}, func() { there[name] = true }, presentTables); err != nil {
		return doctor.Diagnosis{}, err
	}
	columns, err := x.columns(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	for _, w := range things {
		is, found := columns[[2]string{w.table, w.name}]
		typed := widths.ReplaceAllString(strings.ToLower(is.typed), "$1")
		switch {
		case w.kind != wantColumn && !there[w.name]:
			p.add(w.kind+" "+w.name+" is missing", w.sql)
		case w.kind != wantColumn || !there[w.table]:
		case !found:
			p.add("column "+w.table+"."+w.name+" is missing", w.sql)
		case typed != w.typed:
			p.add(fmt.Sprintf("column %s.%s is %s, want %s", w.table, w.name, typed, w.typed), strings.Replace(w.sql, " ADD COLUMN ", " MODIFY COLUMN ", 1))
		}
	}
	return p.diagnosis(doctor.Bad, "%d tables, columns and views are there", len(things)), nil
}

func (x *examination) indexes(ctx context.Context) (doctor.Diagnosis, error) {
	things := x.expected(wantIndex)
	there, tables := map[[2]string]bool{}, map[string]bool{}
	var table, name string
	if err := each(ctx, x.db, []any{&table, &name}, func() { there[[2]string{table, name}] = true }, presentIndexes); err != nil {
		return doctor.Diagnosis{}, err
	}
	if err := each(ctx, x.db, []any{&name}, func() { tables[name] = true }, presentTables); err != nil {
		return doctor.Diagnosis{}, err
	}
	good := "%d indexes are there"
	search := func(w wanted) bool { return w.table == "t_outbox_event" && slices.Contains(searchIndexNames(), w.name) }
	lean := tables["t_outbox_event"] && slices.ContainsFunc(things, search) && !slices.ContainsFunc(things, func(w wanted) bool { return search(w) && there[[2]string{w.table, w.name}] })
	if lean {
		things = slices.DeleteFunc(things, search)
		good += "; the layout is lean: people find events in the outbox by event id only"
	}
	var p problems
	for _, w := range things {
		if tables[w.table] && !there[[2]string{w.table, w.name}] {
			p.add("index "+w.name+" of "+w.table+" is missing", w.sql)
		}
	}
	if err := x.adoptedIndexes(ctx, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	return p.diagnosis(doctor.Bad, good, len(things)), nil
}

func (x *examination) collations(ctx context.Context) (doctor.Diagnosis, error) {
	columns, err := x.columns(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	n := 0
	for _, w := range x.expected(wantColumn) {
		is, found := columns[[2]string{w.table, w.name}]
		if !found || !w.exact {
			continue
		}
		if n++; is.collation != x.server.exact {
			p.add(fmt.Sprintf("%s.%s is %s", w.table, w.name, is.collation),
				fmt.Sprintf("ALTER TABLE %s CONVERT TO CHARACTER SET utf8mb4 COLLATE %s", w.table, x.server.exact))
		}
	}
	return p.diagnosis(doctor.Bad, "%d columns of text compare byte by byte (%s)", n, x.server.exact), nil
}

const otherEngines = `SELECT table_name, engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB' ORDER BY table_name LIMIT 20`

// engines: those of the business count too, because consumers write there what
// must be there once.
func (x *examination) engines(ctx context.Context) (doctor.Diagnosis, error) {
	ours := map[string]bool{migrate.Table: true}
	for _, w := range x.things {
		ours[w.table] = true
	}
	verdict := doctor.Warn
	var p problems
	var table, engine string
	err := each(ctx, x.db, []any{&table, &engine}, func() {
		if ours[table] {
			verdict = doctor.Bad
		}
		p.add(table+" is "+engine, "ALTER TABLE "+quoted(table)+" ENGINE = InnoDB")
	}, otherEngines)
	return p.diagnosis(verdict, "all tables are InnoDB's"), err
}

// What each right allows. Nothing is done, but who may not do it is told so
// before anything else.
const (
	probeSelect = `EXPLAIN SELECT 1 FROM %s WHERE false`
	probeInsert = `EXPLAIN INSERT INTO %s () VALUES ()`
	probeUpdate = `EXPLAIN UPDATE %[1]s SET %[2]s = NULL WHERE false`
	probeDelete = `EXPLAIN DELETE FROM %s WHERE false`
)

func (x *examination) privileges(ctx context.Context) (doctor.Diagnosis, error) {
	columns, err := x.columns(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	lacking, n := map[string][]string{}, 0
	last := ""
	for _, w := range x.expected(wantColumn, wantView) {
		if _, found := columns[[2]string{w.table, w.name}]; w.table == last || !found && w.kind == wantColumn {
			continue
		}
		last = w.table
		n++
		missing, err := x.missingRights(ctx, w)
		if err != nil {
			return doctor.Diagnosis{}, err
		}
		if len(missing) > 0 {
			rights := strings.Join(missing, ", ")
			lacking[rights] = append(lacking[rights], w.table)
		}
	}
	var p problems
	for _, rights := range slices.Sorted(maps.Keys(lacking)) {
		var grants []string
		for _, table := range lacking[rights] {
			grants = append(grants, fmt.Sprintf("GRANT %s ON %s.%s TO %s", rights, quoted(x.url.DBName), table, x.account))
		}
		p.add(fmt.Sprintf("%s lacks %s on %s", x.url.User, rights, strings.Join(lacking[rights], ", ")), strings.Join(grants, "; "))
	}
	if err := x.adoptedRights(ctx, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	return p.diagnosis(doctor.Bad, "%s has every right it needs on %d tables and views", x.url.User, n), nil
}

// missingRights tries what relays, consumers and governance do with a table.
func (x *examination) missingRights(ctx context.Context, w wanted) (missing []string, err error) {
	rights := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	switch {
	case w.kind == wantView:
		rights = rights[:1]
	case w.table == "t_audit":
		rights = rights[:2]
	}
	probes := map[string]string{"SELECT": probeSelect, "INSERT": probeInsert, "UPDATE": probeUpdate, "DELETE": probeDelete}
	for _, right := range rights {
		query := fmt.Sprintf(probes[right], w.table)
		if strings.Contains(probes[right], "%[2]s") {
			query = fmt.Sprintf(probes[right], w.table, quoted(w.name))
		}
		switch denied, err := x.denied(ctx, query); {
		case err != nil:
			return nil, err
		case denied:
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// denied reports whether a right is missing. What else the server says against
// the statement it says to who has it.
func (x *examination) denied(ctx context.Context, query string) (bool, error) {
	rows, err := x.db.QueryContext(ctx, query)
	var said *driver.MySQLError
	switch {
	case err == nil:
		return false, rows.Close()
	case errors.As(err, &said):
		return said.Number == codeNoRight || said.Number == codeNoColumnRight, nil
	}
	return false, err
}

const (
	probeProcess = `SELECT count(*) FROM information_schema.innodb_trx`

	codeNoProcess     = 1227
	codeNoColumnRight = 1143
)

func (x *examination) processRight(ctx context.Context) (doctor.Diagnosis, error) {
	var n int
	err := x.db.QueryRowContext(ctx, probeProcess).Scan(&n)
	if hasCode(err, codeNoProcess) {
		return doctor.Diagnose(doctor.Warn, x.url.User+" lacks PROCESS", "GRANT PROCESS ON *.* TO "+x.account), nil
	}
	return doctor.Sound("%s has it", x.url.User), err
}
