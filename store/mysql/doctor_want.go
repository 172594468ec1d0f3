package mysql

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of wanted things.
const (
	wantTable  = "table"
	wantColumn = "column"
	wantIndex  = "index"
	wantView   = "view"
)

// wanted is something that a migration makes, and the SQL that makes it.
type wanted struct {
	kind, table, name string
	// typed is a column's type as the catalog spells it, and exact is true of
	// one that holds text.
	typed string
	exact bool
	// since is the migration's version.
	since int64
	sql   string
}

// wantedThings reads from the migrations what a database of this program has, so
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
			// A view that is made anew is wanted as it was made last.
			all = slices.DeleteFunc(all, func(v wanted) bool { return v.kind == wantView && w.kind == wantView && v.name == w.name })
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
	makesTable  = regexp.MustCompile(`(?s)^CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*)\)([^()]*)$`)
	makesView   = regexp.MustCompile(`^CREATE (?:OR REPLACE )?VIEW (\w+)`)
	addsColumn  = regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN ([^']*)`) // also as a text that is run if the column is missing
	makesIndex  = regexp.MustCompile(`^(?:UNIQUE )?KEY (\w+) `)
	makesKey    = regexp.MustCompile(`^PRIMARY KEY `)
	ofColumn    = regexp.MustCompile("^`?(\\w+)`? +(\\w+(?:\\(\\d+\\))?)")
)

func wantedOf(up string) (all []wanted) {
	for statement := range strings.SplitSeq(lineComment.ReplaceAllString(up, ""), ";") {
		sql := strings.TrimSpace(statement)
		flat := spaces.ReplaceAllString(sql, " ")
		if m := makesTable.FindStringSubmatch(sql); m != nil {
			all = append(all, wanted{kind: wantTable, table: m[1], name: m[1], sql: flat})
			for line := range strings.Lines(m[2]) {
				all = append(all, partOf(m[1], spaces.ReplaceAllString(strings.Trim(line, " \n,"), " "))...)
			}
		} else if m := addsColumn.FindStringSubmatch(flat); m != nil {
			for part := range strings.SplitSeq(m[2], ", ADD ") {
				all = append(all, partOf(m[1], part)...)
			}
		} else if m := makesView.FindStringSubmatch(flat); m != nil {
			all = append(all, wanted{kind: wantView, table: m[1], name: m[1], sql: flat})
		}
	}
	return all
}

// partOf reads one line of a table's body.
func partOf(table, line string) (parts []wanted) {
	add := "ALTER TABLE " + table + " ADD "
	if m := makesIndex.FindStringSubmatch(line); m != nil {
		return []wanted{{kind: wantIndex, table: table, name: m[1], sql: add + line}}
	}
	if makesKey.MatchString(line) {
		return []wanted{{kind: wantIndex, table: table, name: "PRIMARY", sql: add + line}}
	}
	m := ofColumn.FindStringSubmatch(line)
	if m == nil || m[1] == "CHECK" || m[1] == "CONSTRAINT" {
		return nil
	}
	line, isKey := strings.CutSuffix(line, " PRIMARY KEY")
	if before, _, found := strings.Cut(line, " PRIMARY KEY "); found {
		line, isKey = before, true
	}
	typed := strings.ToLower(m[2])
	if typed == "boolean" {
		typed = "tinyint(1)"
	}
	text := strings.Contains(typed, "char") || strings.Contains(typed, "text")
	parts = []wanted{{kind: wantColumn, table: table, name: m[1], typed: typed, exact: text, sql: add + "COLUMN " + line}}
	if isKey {
		parts = append(parts, wanted{kind: wantIndex, table: table, name: "PRIMARY", sql: add + "PRIMARY KEY (" + m[1] + ")"})
	}
	return parts
}
