package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

func ids(log []settle.Record) string {
	var all []string
	for _, m := range log {
		all = append(all, m.Headers[settle.HeaderEventID])
	}
	return strings.Join(all, " ")
}

func TestAnAdoptedTableStaysItsOwners(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "PENDING")
	// A warm connection of the service, with a statement that it has prepared.
	warm, err := c.db.PrepareContext(t.Context(), `INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES (?, 'order', 'o-1', 'order.created', ?, 'PENDING')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = warm.Close() }()
	store := func() error {
		id := settle.NewID()
		_, err := warm.ExecContext(t.Context(), id, fmt.Sprintf(`{"eventId": %q, "eventType": "x", "aggregateId": "o-1"}`, id))
		return err
	}
	catalog := func() string {
		var all, table string
		if err := c.db.QueryRowContext(t.Context(), `SELECT group_concat(what ORDER BY what) FROM (
 SELECT CONCAT(table_type, ' ', table_name) AS what FROM information_schema.tables WHERE table_schema = DATABASE()
 UNION ALL SELECT CONCAT('routine ', routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE()
 UNION ALL SELECT CONCAT('trigger ', trigger_name) FROM information_schema.triggers WHERE trigger_schema = DATABASE()) w`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		if err := c.db.QueryRowContext(t.Context(), `SELECT create_options FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 't_outbox_event'`).Scan(&table); err != nil {
			t.Fatal(err)
		}
		rows, err := c.db.QueryContext(t.Context(), `SELECT CONCAT_WS(' ', column_name, column_type, column_default, extra) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var column string
			if err := rows.Scan(&column); err != nil {
				t.Fatal(err)
			}
			all += "\n" + column
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all + table
	}
	before := catalog()
	if err := store(); err != nil {
		t.Fatal(err)
	}
	c.adopt(migrate.AdoptConfig{})
	if err := store(); err != nil {
		t.Errorf("after the adoption a warm connection says %v", err)
	}
	if after := catalog(); after != before {
		t.Errorf("the owner's database was\n%s\nand is\n%s", before, after)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(5)
	for _, change := range []string{
		`ALTER TABLE t_outbox_event ADD COLUMN tenant TEXT`, `ALTER TABLE t_outbox_event MODIFY event_id VARCHAR(128) NOT NULL`,
		`ALTER TABLE t_outbox_event MODIFY last_error VARCHAR(500)`, `CREATE INDEX i_tenant ON t_outbox_event (tenant(20))`, `ALTER TABLE t_outbox_event DROP COLUMN tenant`,
		`ALTER TABLE t_outbox_event ENGINE = InnoDB`, `OPTIMIZE TABLE t_outbox_event`,
	} {
		c.exec(change)
	}
	c.insert(100, 105, "PENDING")
	r.sends(11)
	c.becomes("SENT 11")
	if err := store(); err != nil {
		t.Errorf("behind its owner's changes a warm connection says %v", err)
	}
}
