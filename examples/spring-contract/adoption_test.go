package springcontract_test

import (
	"maps"
	"strings"
	"testing"
)

// adopted is the URL of Settle's own schema beside the service's.
func (d database) adopted() string {
	at := *d.url
	q := at.Query()
	q.Set("search_path", "settle")
	at.RawQuery = q.Encode()
	return at.String()
}

// adopt takes over the service's table, whatever happens to it meanwhile.
func adopt(t *testing.T, d database) string {
	t.Helper()
	return command(t, 0, "migrate", "--db", d.adopted(), "--adopt", "--zone", zone, "--topic", topic, "--status", "dead=FAILED", "--yes")
}

// layout is every column, index, constraint, trigger and right of the service's
// schema, and of its tables what a statement that was prepared could notice.
const layout = `
SELECT string_agg(d, E'\n' ORDER BY d) FROM (
  SELECT format('%s.%s %s %s %s', a.attrelid::regclass, a.attname, a.attnum, a.atttypid::regtype, pg_get_expr(f.adbin, f.adrelid))
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
  WHERE c.relnamespace = 'public'::regnamespace
  UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT format('trigger %s on %s', tgname, tgrelid::regclass) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'public'::regnamespace
  UNION ALL SELECT format('function %s', proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT format('%s %s %s', oid::regclass, relfilenode, relacl) FROM pg_class WHERE relnamespace = 'public'::regnamespace
) l(d)`

func TestAServiceUnderLoadIsAdoptedWithoutNoticing(t *testing.T) {
	d := newDatabase(t)
	s := start(t, d)
	orders := order(t, s, "load", 0)
	// Each connection has its statements prepared, with their results' types.
	orders.more(10 * customers)
	before := one[string](t, d, layout)
	said := adopt(t, d)
	if after := one[string](t, d, layout); after != before {
		t.Errorf("adoption has changed the service's schema from\n%s\nto\n%s", before, after)
	}
	orders.more(5 * customers)
	dir := t.TempDir()
	r := serve(t, d, dir)
	orders.more(10 * customers)
	want := orders.stop(t)
	d.await(t, "all is sent", allSent)
	expect(t, readTopic(t, r.broker), want, d.events(t))
	if n := one[int](t, d, `SELECT count(*) FROM t_outbox_event WHERE status NOT IN ('PENDING', 'RETRY', 'SENT', 'FAILED')`); n > 0 {
		t.Errorf("%d rows have a status that the service's enum has not", n)
	}
	if _, again := firstCopies(readTopic(t, r.broker)); again > 0 {
		t.Errorf("%d events were sent twice though nothing went wrong", again)
	}
	t.Logf("%d orders; adoption said\n%s", len(want), said)

	// Flyway and Hibernate look at the schema when the service starts: they are
	// not troubled, and the service goes on.
	s.stop(t)
	s = start(t, d)
	later := order(t, s, "restarted", 0)
	later.more(customers)
	maps.Copy(want, later.stop(t))
	d.await(t, "all is sent", allSent)
	expect(t, readTopic(t, r.broker), want, d.events(t))

	// What it consumes is recorded in the table that was there before.
	for _, m := range readTopic(t, r.broker)[:10] {
		if strings.Contains(m.value, `"order.created"`) {
			if err := s.postText("/messages", m.value, nil); err != nil {
				t.Errorf("what Settle has sent can't be consumed: %v", err)
			}
		}
	}
	r.stop(t)
	s.stop(t)
}

const allSent = `SELECT NOT EXISTS (SELECT FROM t_outbox_event WHERE status <> 'SENT')`
