package postgres

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of wanted things.
const (
	wantTable    = "table"
	wantColumn   = "column"
	wantIndex    = "index"
	wantView     = "view"
	wantTrigger  = "trigger"
	wantFunction = "function"
)

// wanted is something that a migration makes, and the SQL that makes it.
type wanted struct {
	kind, table, name string
	// typed is a column's type as the catalog spells it.
	typed string
	// since is the migration's version.
	since int64
	// added is true for a column that came after its table.
	added bool
	sql   string
}

// wantedThings reads from the migrations what a schema of this program has, so
// that there is no second list of it.
func wantedThings(migrations fs.FS) (all []wanted, err error) {
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		number, _, _ := strings.Cut(file, "_")
		since, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		b, err := fs.ReadFile(migrations, file)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(b), "-- +goose Down")
		for _, w := range wantedOf(up) {
			w.since = since
			// A view or function that is made anew is wanted as it was made last.
			all = slices.DeleteFunc(all, func(v wanted) bool {
				return v.kind == w.kind && v.name == w.name && (v.kind == wantView || v.kind == wantFunction)
			})
			all = append(all, w)
		}
	}
	return all, nil
}

func lastVersion(all []wanted) (last int64) {
	for _, w := range all {
		last = max(last, w.since)
	}
	return last
}

var (
	lineComment = regexp.MustCompile(`--[^\n]*`)
	spaces      = regexp.MustCompile(`\s+`)
	makesTable  = regexp.MustCompile(`(?s)^CREATE TABLE (\w+) \((.*)\)`)
	makesOther  = regexp.MustCompile(`(?s)^CREATE (?:OR REPLACE )?(?:UNIQUE )?(INDEX|VIEW|TRIGGER) (\w+)(?: .*?\bON (\w+))?`)
	addsColumn  = regexp.MustCompile(`^ALTER TABLE (\w+) ADD COLUMN (.*)`)
	ofColumn    = regexp.MustCompile(`^"?(\w+)"? +(\w+(?:\[\])?)`)
	makesAsOne  = regexp.MustCompile(`(?s)-- \+goose StatementBegin\n(.*?)-- \+goose StatementEnd`)
	makesFunc   = regexp.MustCompile(`CREATE (?:OR REPLACE )?FUNCTION (\w+)`)
)

func wantedOf(up string) (all []wanted) {
	for _, one := range makesAsOne.FindAllStringSubmatch(up, -1) {
		sql := strings.TrimSpace(spaces.ReplaceAllString(lineComment.ReplaceAllString(one[1], ""), " "))
		for _, m := range makesFunc.FindAllStringSubmatch(sql, -1) {
			all = append(all, wanted{kind: wantFunction, name: m[1], sql: sql})
		}
	}
	for statement := range strings.SplitSeq(lineComment.ReplaceAllString(up, ""), ";") {
		sql := strings.TrimSpace(statement)
		flat := spaces.ReplaceAllString(sql, " ")
		if m := makesTable.FindStringSubmatch(sql); m != nil {
			all = append(all, wanted{kind: wantTable, table: m[1], name: m[1], sql: flat})
			for line := range strings.Lines(m[2]) {
				all = append(all, columnOf(m[1], strings.Trim(line, " \n,"))...)
			}
		} else if m := addsColumn.FindStringSubmatch(flat); m != nil {
			for _, c := range columnOf(m[1], m[2]) {
				c.added = true
				all = append(all, c)
			}
		} else if m := makesOther.FindStringSubmatch(flat); m != nil {
			w := wanted{kind: strings.ToLower(m[1]), table: m[3], name: m[2], sql: flat}
			if w.kind == wantView {
				w.table = w.name
			}
			all = append(all, w)
		}
	}
	return all
}

// columnOf reads one line of a table's body.
func columnOf(table, line string) []wanted {
	m := ofColumn.FindStringSubmatch(line)
	if m == nil || m[1] == "PRIMARY" || m[1] == "UNIQUE" {
		return nil
	}
	typed := m[2]
	if typed == "timestamptz" {
		typed = "timestamp with time zone"
	}
	return []wanted{{kind: wantColumn, table: table, name: m[1], typed: typed, sql: addsTo(table, m[1], typed, spaces.ReplaceAllString(line, " "))}}
}

// addsTo adds a column to a table that may have rows: they get what says the
// least, where they must have something.
func addsTo(table, name, typed, line string) string {
	sql := "ALTER TABLE " + table + " ADD COLUMN " + line
	if !strings.Contains(line, "NOT NULL") || strings.Contains(line, "DEFAULT") || strings.Contains(line, "GENERATED") {
		return sql
	}
	least := map[string]string{
		"text": "''", "bytea": "''", "bigint": "0", "integer": "0", "boolean": "false", "timestamp with time zone": "now()", "json": "'[]'", "jsonb": "'[]'",
	}[typed]
	return sql + " DEFAULT " + least + "; ALTER TABLE " + table + " ALTER COLUMN " + name + " DROP DEFAULT"
}
