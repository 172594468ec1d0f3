package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What the migrations are read as is what the server makes of them.
func TestTheMigrationsAreReadAsTheServerReadsThem(t *testing.T) {
	t.Run("own", func(t *testing.T) {
		s := OpenForTest(t, DatabaseForTest(t), Config{})
		compareWanted(t, s.own, false)
	})
	t.Run("adopted", func(t *testing.T) {
		at := DatabaseForTest(t)
		pool, err := pgxpool.New(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		cfg := pool.Config().ConnConfig
		if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+cfg.RuntimeParams["search_path"]); err != nil {
			t.Fatal(err)
		}
		if err := migrateAdopted(t.Context(), cfg, true); err != nil {
			t.Fatal(err)
		}
		compareWanted(t, pool, true)
	})
}

func compareWanted(t *testing.T, pool *pgxpool.Pool, adopted bool) {
	files, err := layout(adopted)
	if err != nil {
		t.Fatal(err)
	}
	want, err := wantedThings(files)
	if err != nil {
		t.Fatal(err)
	}
	var read, made []string
	for _, w := range want {
		if w.kind != wantView {
			read = append(read, strings.Join([]string{w.kind, w.table, w.name, w.typed}, " "))
		}
	}
	rows, err := pool.Query(t.Context(), `SELECT 'table ' || relname || ' ' || relname || ' ' FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname <> 'settle_schema'
UNION ALL SELECT 'column ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> 'settle_schema'
UNION ALL SELECT 'index ' || tablename || ' ' || indexname || ' ' FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%\_pkey'
UNION ALL SELECT 'trigger ' || c.relname || ' ' || t.tgname || ' ' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
UNION ALL SELECT 'function  ' || proname || ' ' FROM pg_proc WHERE pronamespace = current_schema()::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	slices.Sort(read)
	slices.Sort(made)
	if !slices.Equal(read, made) {
		t.Errorf("read\n%s\nmade\n%s", strings.Join(read, "\n"), strings.Join(made, "\n"))
	}
}
