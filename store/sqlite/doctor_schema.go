package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

func (x *examination) openAsWriter() (*sql.DB, error) {
	return sql.Open("sqlite", dsn(x.path, Config{BusyTimeout: x.cfg.BusyTimeout}, append(writerOptions(), "mode=ro")...))
}

const schemaVersion = `SELECT coalesce(max(version_id), 0) FROM ` + migrate.Table

func versionOf(ctx context.Context, db *sql.DB) (version int64, err error) {
	var found int
	if err := db.QueryRowContext(ctx, findSchema).Scan(&found); err != nil || found == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, schemaVersion).Scan(&version)
	return version, err
}

func (x *examination) schemaVersion(ctx context.Context) (doctor.Diagnosis, error) {
	version, err := versionOf(ctx, x.db)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	model, err := openModel(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = model.Close() }()
	last, err := versionOf(ctx, model)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	fix := "settle migrate --db URL, or --dry-run for the SQL; it goes on where an earlier one stopped"
	switch {
	case version == 0:
		return doctor.Diagnose(doctor.Bad, "no tables of Settle", fix), nil
	case version < last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d, this program knows %d", version, last), fix), nil
	case version > last:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("version %d, this program knows only %d", version, last), "use the program that migrated it, or a later one"), nil
	}
	return doctor.Sound("version %d", version), nil
}

// openModel makes the schema of this program in memory, to compare with.
func openModel(ctx context.Context) (*sql.DB, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := migrate.Up(ctx, db, migrate.SQLite, files); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

const (
	listThings  = `SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY type = 'table' DESC, name`
	listColumns = `SELECT name, type FROM pragma_table_xinfo(?)`
)

// thing is a table, index, view or trigger.
type thing struct{ kind, name, sql string }

func things(ctx context.Context, db *sql.DB) (all []thing, err error) {
	rows, err := db.QueryContext(ctx, listThings)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var t thing
		if err := rows.Scan(&t.kind, &t.name, &t.sql); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

func columns(ctx context.Context, db *sql.DB, table string) (types map[string]string, order []string, err error) {
	rows, err := db.QueryContext(ctx, listColumns, table)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	types = map[string]string{}
	for rows.Next() {
		var name, typed string
		if err := rows.Scan(&name, &typed); err != nil {
			return nil, nil, err
		}
		types[name], order = typed, append(order, name)
	}
	return types, order, rows.Err()
}

func (x *examination) tables(ctx context.Context) (doctor.Diagnosis, error) {
	model, err := openModel(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = model.Close() }()
	here, err := versionOf(ctx, x.db)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if last, err := versionOf(ctx, model); err != nil || here != last {
		return doctor.Sound("of another version: see schema"), err
	}
	wanted, err := things(ctx, model)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	present, err := things(ctx, x.db)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	there := map[string]bool{}
	for _, t := range present {
		there[t.kind+" "+t.name] = true
	}
	var found, fixes []string
	for _, t := range wanted {
		if !there[t.kind+" "+t.name] {
			found, fixes = append(found, t.kind+" "+t.name+" is missing"), append(fixes, strings.Join(strings.Fields(t.sql), " "))
			continue
		}
		f, err := x.changedColumns(ctx, model, t)
		if err != nil {
			return doctor.Diagnosis{}, err
		}
		found, fixes = append(found, f.found...), append(fixes, f.fixes...)
	}
	if len(found) > 0 {
		return doctor.Diagnose(doctor.Bad, strings.Join(found, "; "), strings.Join(fixes, "; ")), nil
	}
	return doctor.Sound("%d tables, indexes, views and triggers are there", len(wanted)), nil
}

type changes struct{ found, fixes []string }

func (x *examination) changedColumns(ctx context.Context, model *sql.DB, t thing) (c changes, err error) {
	if t.kind != "table" {
		return c, nil
	}
	want, order, err := columns(ctx, model, t.name)
	if err != nil {
		return c, err
	}
	is, _, err := columns(ctx, x.db, t.name)
	for _, name := range order {
		switch typed, ok := is[name]; {
		case !ok:
			c.found = append(c.found, fmt.Sprintf("column %s.%s is missing", t.name, name))
			c.fixes = append(c.fixes, fmt.Sprintf(`ALTER TABLE %s ADD COLUMN "%s" %s`, t.name, name, want[name]))
		case typed != want[name]:
			c.found = append(c.found, fmt.Sprintf("column %s.%s is %s, want %s", t.name, name, typed, want[name]))
			c.fixes = append(c.fixes, "make the table anew as settle migrate --dry-run shows for an empty file, and copy its rows")
		}
	}
	return c, err
}
