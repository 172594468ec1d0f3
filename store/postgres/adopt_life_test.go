package postgres_test

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

func TestAnAdoptedTableStaysItsOwners(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "PENDING")
	// A warm connection of the service: what pgjdbc does for IDENTITY.
	warm := func() error {
		_, err := c.conn.Exec(t.Context(), "insert_all", settle.NewID())
		return err
	}
	if _, err := c.conn.Prepare(t.Context(), "insert_all", `INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES ($1::text, 'order', 'o-1', 'order.created', jsonb_build_object('eventId', $1::text, 'eventType', 'x', 'aggregateId', 'o-1'), 'PENDING') RETURNING *`); err != nil {
		t.Fatal(err)
	}
	catalog := func() string {
		var all string
		if err := c.conn.QueryRow(t.Context(), `SELECT string_agg(what, ', ' ORDER BY what) FROM (
 SELECT c.relkind::text || ' ' || c.relname AS what FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
 UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
 UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = 't_outbox_event'::regclass
 UNION ALL SELECT 'column ' || attname || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't_outbox_event'::regclass
 UNION ALL SELECT 'depends ' || classid::regclass::text || ' ' || objid::text FROM pg_depend WHERE refobjid = 't_outbox_event'::regclass) w`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := catalog()
	if err := warm(); err != nil {
		t.Fatal(err)
	}
	c.adopt(migrate.AdoptConfig{})
	if err := warm(); err != nil {
		t.Errorf("after the adoption a warm connection says %v", err)
	}
	if after := catalog(); after != before {
		t.Errorf("the owner's schema was\n%s\nand is\n%s", before, after)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(5)
	for _, change := range []string{
		`ALTER TABLE t_outbox_event ADD COLUMN tenant TEXT`, `ALTER TABLE t_outbox_event ALTER COLUMN event_id TYPE VARCHAR(128)`,
		`ALTER TABLE t_outbox_event ALTER COLUMN last_error TYPE VARCHAR(500)`, `CREATE INDEX ON t_outbox_event (tenant)`, `ALTER TABLE t_outbox_event DROP COLUMN tenant`,
	} {
		c.exec(change)
	}
	c.insert(100, 105, "PENDING")
	r.sends(11)
	c.becomes("SENT 11")
	if _, err := r.store.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
}
