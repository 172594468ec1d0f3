package mysql

import (
	"slices"
	"strings"
	"testing"
)

// What the migrations are read as is what the server makes of them.
func TestTheMigrationsAreReadAsTheServerReadsThem(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	files, err := s.server.layout(false)
	if err != nil {
		t.Fatal(err)
	}
	things, err := wantedThings(files)
	if err != nil {
		t.Fatal(err)
	}
	var read, made []string
	for _, w := range things {
		read = append(read, strings.TrimSpace(strings.Join([]string{w.kind, w.table, w.name, w.typed}, " ")))
	}
	var line string
	err = each(t.Context(), s.own, []any{&line}, func() { made = append(made, line) },
		`SELECT concat(CASE table_type WHEN 'VIEW' THEN 'view ' ELSE 'table ' END, table_name, ' ', table_name) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name <> 'settle_schema'
UNION ALL SELECT DISTINCT concat('index ', table_name, ' ', index_name) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name <> 'settle_schema'`)
	if err != nil {
		t.Fatal(err)
	}
	var table, column, typed string
	err = each(t.Context(), s.own, []any{&table, &column, &typed}, func() {
		made = append(made, "column "+table+" "+column+" "+widths.ReplaceAllString(typed, "$1"))
	}, `SELECT c.table_name, c.column_name, c.column_type FROM information_schema.columns c JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' AND c.table_name <> 'settle_schema'`)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(read)
	slices.Sort(made)
	for _, line := range read {
		if !slices.Contains(made, line) {
			t.Errorf("read and not made: %s", line)
		}
	}
	for _, line := range made {
		if !slices.Contains(read, line) {
			t.Errorf("made and not read: %s", line)
		}
	}
	if len(read) != len(made) {
		t.Errorf("read are %d things, made %d", len(read), len(made))
	}
}
