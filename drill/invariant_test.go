package drill

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A state in which every invariant has something to examine and holds: two
// orders reserved or cancelled, one whose event died and was replayed.
const goodState = `
INSERT INTO client_request VALUES('k1'),('k2'),('k3');
INSERT INTO client_item VALUES('k1','a',2),('k2','b',1),('k3','a',1);
INSERT INTO client_answer VALUES('k1','o1'),('k1','o1'),('k2','o2'),('k3','o3');
INSERT INTO orders VALUES('o1','k1','RESERVED',1000,2,1,5),('o2','k2','CANCELLED',500,2,1,5),('o3','k3','RESERVED',200,2,1,9);
INSERT INTO order_items VALUES('o1','a',2),('o2','b',1),('o3','a',1);
INSERT INTO stock VALUES('a',10,7,3,0),('b',0,0,0,0);
INSERT INTO reservations VALUES('r1','o1','a',2,'RESERVED',3,3),('r3','o3','a',1,'RESERVED',3,3);
INSERT INTO stock_ledger VALUES('l1','a','reserve',-2,2,0,'r1','e1',2),('l3','a','reserve',-1,1,0,'r3','e5',4);
INSERT INTO subscription VALUES('inventory','order.created'),('inventory','order.cancelled'),('order','inventory.reserved'),('order','inventory.reserve_failed');
INSERT INTO outbox VALUES
 ('e1',NULL,'order','order.created','order','o1',1,'h1','SENT',1,2,'t',3,1),
 ('e2',NULL,'order','order.created','order','o2',1,'h2','SENT',1,2,'t',4,2),
 ('e3','e1','inventory','inventory.reserved','reservation','o1',1,'h3','SENT',1,2,'t',3,4),
 ('e4','e2','inventory','inventory.reserve_failed','reservation','o2',1,'h4','SENT',1,2,'t',4,5),
 ('e5',NULL,'order','order.created','order','o3',1,'h5','SENT',1,2,'t',5,6),
 ('e6','e5','inventory','inventory.reserved','reservation','o3',1,'h6','SENT',1,2,'t',5,8),
 ('e7','e3','order','order.reserved','order','o1',2,'h7','SENT',1,2,'t',3,9),
 ('e8','e4','order','order.cancelled','order','o2',2,'h8','SENT',1,2,'t',4,10),
 ('e9','e6','order','order.reserved','order','o3',2,'h9','SENT',1,2,'t',5,11);
INSERT INTO inbox VALUES
 ('inventory','e1','APPLIED','o1',1,'h1',1,2),('inventory','e2','APPLIED','o2',1,'h2',2,2),('inventory','e5','APPLIED','o3',1,'h5',3,2),('inventory','e8','APPLIED','o2',1,'h8',4,2),
 ('order','e3','APPLIED','o1',1,'h3',1,2),('order','e4','APPLIED','o2',1,'h4',2,2),('order','e6','APPLIED','o3',1,'h6',3,2);
INSERT INTO dead_letter VALUES
 (1,'inventory','inventory','e5','handler_error',4,'REPLAYED',1,100,50,'alice'),
 (2,'inventory','inventory','f1','undecodable',0,'DISCARDED',1,100,50,'alice');
INSERT INTO audit_log VALUES
 ('inventory',1,1,'alice','dlq.replay','inventory:e5','','','A','A'),('inventory',2,2,'alice','dlq.discard','inventory:f1','cut','A','B','B'),
 ('order',1,1,'bob','control.pause','relay:','','','C','C');
INSERT INTO planted VALUES('t',3,7,'foreign'),('t',3,3,'duplicate');
INSERT INTO broker_log VALUES
 ('t',3,1,'e1','order','o1',1,'h1'),('t',4,2,'e2','order','o2',1,'h2'),('t',3,3,'e1','order','o1',1,'h1'),('t',3,4,'e3','reservation','o1',1,'h3'),
 ('t',4,5,'e4','reservation','o2',1,'h4'),('t',5,6,'e5','order','o3',1,'h5'),('t',3,7,'','','',0,'hx'),('t',5,8,'e6','reservation','o3',1,'h6'),
 ('t',3,9,'e7','order','o1',2,'h7'),('t',4,10,'e8','order','o2',2,'h8'),('t',5,11,'e9','order','o3',2,'h9');
`

// violations are planted one at a time; each must be found by the invariant
// of its id (others may find it too).
var violations = map[string][]string{
	"I01": {"DELETE FROM outbox WHERE event_id='e1'"},
	"I02": {"UPDATE outbox SET aggregate_id='ghost' WHERE event_id='e7'"},
	"I03": {"UPDATE orders SET version=3 WHERE order_id='o1'", "DELETE FROM outbox WHERE event_id='e7'"},
	"I04": {"UPDATE outbox SET aggregate_seq=9 WHERE event_id='e7'", "UPDATE outbox SET aggregate_seq=1 WHERE event_id='e7'"},
	"I05": {"UPDATE stock SET available=-1", "UPDATE stock SET sold=-1"},
	"I06": {"UPDATE stock SET available=9 WHERE sku='a'"},
	"I07": {"DELETE FROM stock_ledger WHERE ledger_id='l3'", "UPDATE stock_ledger SET d_available=-1 WHERE ledger_id='l1'"},
	"I08": {"UPDATE reservations SET state='RELEASED' WHERE reservation_id='r1'", "DELETE FROM reservations WHERE reservation_id='r1'"},
	"I09": {"INSERT INTO reservations VALUES('r9','o1','a',2,'RESERVED',1,1)"},
	"I10": {"UPDATE reservations SET qty=1 WHERE reservation_id='r1'", "DELETE FROM reservations WHERE reservation_id='r3'"},
	"I11": {"INSERT INTO reservations VALUES('r2','o2','b',1,'RESERVED',1,1)"},
	"I12": {"INSERT INTO reservations VALUES('r8','none','a',1,'RELEASED',1,1)"},
	"I15": {"DELETE FROM inbox WHERE event_id='e1'", "DELETE FROM inbox WHERE consumer='order' AND event_id='e4'", "UPDATE inbox SET status='PARKED' WHERE event_id='e4'"},
	"I16": {"INSERT INTO retry_message VALUES('inventory','e1',1,1)", "UPDATE dead_letter SET state='OPEN' WHERE event_id='e5'", "UPDATE dead_letter SET state='REPLAYING' WHERE event_id='e5'"},
	"I17": {"INSERT INTO inbox VALUES('order','xx','APPLIED','o1',1,'h',9,2)", "UPDATE inbox SET payload_hash='zz' WHERE event_id='e3'"},
	"I18": {"UPDATE inbox SET event_id='e7' WHERE event_id='e8'; UPDATE inbox SET processed_no=0 WHERE event_id='e7'"},
	"I20": {"UPDATE outbox SET status='PENDING' WHERE event_id='e9'", "UPDATE outbox SET status='DEAD' WHERE event_id='e9'"},
	"I21": {"INSERT INTO stock_ledger VALUES('l9','a','reserve',0,0,0,'r1','e1',2)"},
	"I22": {"UPDATE dead_letter SET closed_by=NULL WHERE id=1", "UPDATE dead_letter SET state='OPEN', due_at=0 WHERE id=2"},
	"I23": {"DELETE FROM audit_log WHERE seq=2", "UPDATE audit_log SET action='dlq.replay' WHERE seq=2"},
	"I24": {
		"UPDATE audit_log SET row_hash='T' WHERE service='inventory' AND seq=1", "DELETE FROM audit_log WHERE service='inventory' AND seq=1",
		"UPDATE audit_log SET row_sum='T' WHERE service='order'", "UPDATE audit_log SET prev_hash='T' WHERE service='order'",
		"UPDATE audit_log SET seq=3 WHERE service='inventory' AND seq=2",
	},
	"H1":  {"INSERT INTO client_answer VALUES('k2','o9')", "UPDATE order_items SET qty=3 WHERE order_id='o1'", "UPDATE orders SET request_key='k9' WHERE order_id='o1'"},
	"H2":  {"DELETE FROM client_item WHERE request_key='k1'", "INSERT INTO orders VALUES('o9','k9','RESERVED',1,1,1,1)"},
	"H3":  {"INSERT INTO orders VALUES('o9','k1','RESERVED',1,1,1,1)", "INSERT INTO client_answer VALUES('k1','o2')"},
	"H4":  {"INSERT INTO order_items VALUES('o1','c',1)", "DELETE FROM inbox WHERE event_id='e1'", "DELETE FROM stock_ledger WHERE ledger_id='l1'", "UPDATE inbox SET status='REJECTED' WHERE event_id='e5'"},
	"H9":  {"UPDATE orders SET status='CREATED' WHERE order_id='o1'", "DELETE FROM outbox WHERE event_id='e8'"},
	"H10": {"UPDATE outbox SET causation_id='e2' WHERE event_id='e3'; DELETE FROM inbox WHERE event_id='e2'", "UPDATE inbox SET status='REJECTED' WHERE event_id='e6'"},
	"K1":  {"DELETE FROM broker_log WHERE broker_offset=9", "UPDATE broker_log SET event_id='e1' WHERE broker_offset=9"},
	"K2": {
		"INSERT INTO broker_log VALUES('t',3,12,'zz','order','o1',3,'h')", "UPDATE broker_log SET payload_hash='h' WHERE broker_offset=9",
		"DELETE FROM planted WHERE kind='foreign'", "UPDATE broker_log SET aggregate_seq=5 WHERE broker_offset=9",
	},
	"K3": {
		"UPDATE broker_log SET broker_offset=0 WHERE broker_offset=9", "UPDATE broker_log SET broker_partition=7 WHERE broker_offset=9",
		"DELETE FROM broker_log WHERE event_id='e1'",
	},
}

func facts(t *testing.T) *Facts {
	t.Helper()
	f, err := OpenFacts(t.Context(), filepath.Join(t.TempDir(), "facts.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func broken(t *testing.T, f *Facts) []string {
	t.Helper()
	all, err := f.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, inv := range all {
		if inv.Violations > 0 {
			ids = append(ids, inv.ID)
			if len(inv.Examples) == 0 {
				t.Errorf("%s is violated without an example", inv.ID)
			}
		}
	}
	return ids
}

func TestInvariantsRaiseNoAlarmOnAGoodState(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState)
	if ids := broken(t, f); ids != nil {
		t.Errorf("false alarms: %v", ids)
	}
	all, _ := f.Check(t.Context())
	queries, err := parseQueries(invariantQueries)
	if err != nil || len(all) != len(queries) {
		t.Errorf("%d of %d invariants had something to examine (%v)", len(all), len(queries), err)
	}
}

func TestEachInvariantFindsEachPlantedViolation(t *testing.T) {
	queries, err := parseQueries(invariantQueries)
	if err != nil {
		t.Fatal(err)
	}
	f := facts(t)
	for _, q := range queries {
		if len(violations[q.id]) == 0 {
			t.Errorf("%s has no planted violation", q.id)
		}
		for i, planted := range violations[q.id] {
			t.Run(fmt.Sprintf("%s_%d", q.id, i+1), func(t *testing.T) {
				empty(t, f)
				plant(t, f, goodState)
				plant(t, f, planted)
				if ids := broken(t, f); !slices.Contains(ids, q.id) {
					t.Errorf("not found after %s; broken: %v", planted, ids)
				}
			})
		}
	}
}

func TestAnInvariantWithNothingToExamineIsLeftOutOrViolatedButNeverPassed(t *testing.T) {
	f := facts(t)
	all, err := f.Check(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, inv := range all {
		if inv.Violations == 0 {
			t.Errorf("%s passes on no facts at all", inv.ID)
		}
		if slices.Contains([]string{"I10", "I11", "I22", "I23", "I24"}, inv.ID) {
			t.Errorf("%s is not left out", inv.ID)
		}
	}
}

func TestOnlyTheFirstViolationsAreKeptAsExamplesButAllAreCounted(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState)
	for i := range 20 {
		plant(t, f, fmt.Sprintf("INSERT INTO stock VALUES('s%d',0,-1,1,0)", i))
	}
	all, _ := f.Check(t.Context())
	i := slices.IndexFunc(all, func(v Invariant) bool { return v.ID == "I05" })
	if v := all[i]; v.Violations != 20 || len(v.Examples) != 5 || !strings.Contains(v.Examples[0], "sku=s0") {
		t.Errorf("got %+v", v)
	}
}

func TestAQueryFileWithoutNamesOrEndsIsRefused(t *testing.T) {
	for _, text := range []string{"SELECT 1;", "-- name: A a\nSELECT 1"} {
		if _, err := parseQueries(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestCopyHashesPayloadsAndTakesRowsFromAnotherDatabase(t *testing.T) {
	from, to := facts(t), facts(t)
	plant(t, from, "CREATE TABLE x (id TEXT, body BLOB); INSERT INTO x VALUES('e1', 'abc'), ('e2', x'00ff')")
	err := to.Copy(t.Context(), "order", from.db, `
-- name: outbox
SELECT id AS event_id, :service AS service, 'T' AS event_type, 'order' AS aggregate_type, 'o' AS aggregate_id, 1 AS aggregate_seq, body AS payload, 'SENT' AS status, 1 AS created_at, 't' AS topic FROM x;`)
	if err != nil {
		t.Fatal(err)
	}
	n, err := to.number(t.Context(), "SELECT COUNT(*) FROM outbox WHERE payload_hash IN ('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad','"+payloadHash([]byte{0, 255})+"')")
	if n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := to.Copy(t.Context(), "order", from.db, "-- name: outbox\nSELECT id AS event_id FROM x;"); err == nil {
		t.Error("rows that lack facts are taken")
	}
}

func plant(t *testing.T, f *Facts, text string) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func empty(t *testing.T, f *Facts) {
	t.Helper()
	rows, err := f.db.QueryContext(t.Context(), "SELECT name FROM sqlite_master WHERE type='table'")
	if err != nil {
		t.Fatal(err)
	}
	var deletes strings.Builder
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		deletes.WriteString("DELETE FROM " + name + ";")
	}
	_ = rows.Close()
	plant(t, f, deletes.String())
}
