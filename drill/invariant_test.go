package drill

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// violations are planted one at a time in the good state; each must be found
// by the invariant of its id (others may find it too).
var violations = map[string][]string{
	"I01": {"DELETE FROM outbox WHERE event_id='o1/order.created'"},
	"I02": {"UPDATE outbox SET aggregate_id='ghost' WHERE event_id='o1/order.reserved'", "UPDATE outbox SET aggregate_id='ghost' WHERE event_id='o1/marketing.granted'"},
	"I03": {"UPDATE orders SET version=6 WHERE order_id='o1'", "DELETE FROM outbox WHERE event_id='o1/order.reserved'"},
	"I04": {
		"UPDATE outbox SET aggregate_seq=9 WHERE event_id='o1/order.reserved'", "UPDATE outbox SET aggregate_seq=1 WHERE event_id='o1/order.reserved'",
		"UPDATE outbox SET aggregate_seq=0 WHERE event_id='o1/inventory.reserved'", "UPDATE outbox SET aggregate_seq=1 WHERE event_id='o1/order.payment_due'",
		"UPDATE outbox SET not_before=NULL WHERE event_id='o1/order.payment_due'",
	},
	"I05": {"UPDATE stock SET available=-1", "UPDATE stock SET sold=-1"},
	"I06": {"UPDATE stock SET available=9 WHERE sku='a'"},
	"I07": {"DELETE FROM stock_ledger", "DELETE FROM stock_ledger WHERE ledger_id='l3'", "UPDATE stock_ledger SET d_available=-1 WHERE ledger_id='l1'"},
	"I08": {"UPDATE reservations SET state='RELEASED' WHERE reservation_id='r1'", "DELETE FROM reservations WHERE reservation_id='r1'"},
	"I09": {"INSERT INTO reservations VALUES('r9','o1','a',2,'RESERVED',1,1)"},
	"I10": {"UPDATE reservations SET qty=1 WHERE reservation_id='r1'", "DELETE FROM reservations WHERE reservation_id='r3'", "UPDATE reservations SET state='RESERVED' WHERE reservation_id='r1'"},
	"I11": {"UPDATE reservations SET state='RESERVED' WHERE reservation_id='r2'", "UPDATE reservations SET state='CONFIRMED' WHERE reservation_id='r7'"},
	"I12": {
		"INSERT INTO reservations VALUES('r8','none','a',1,'RELEASED',1,1)", "INSERT INTO payments VALUES('none','VOIDED',1,1)", "INSERT INTO assessments VALUES('none','APPROVED',1)",
		"INSERT INTO shipments VALUES('none','BARRED','',1)", "INSERT INTO rewards VALUES('none','BARRED',0,'',1)",
	},
	"I13": {
		"INSERT INTO outside_ledger VALUES('provider','capture:again','capture','o1','c1',1000,6)", "UPDATE outside_ledger SET amount_cents=1001 WHERE idempotency_key='capture:o1'",
		"INSERT INTO outside_ledger VALUES('provider','capture:none','capture','none','c1',1,6)",
		"DELETE FROM outside_ledger WHERE system='provider'", "DELETE FROM outside_ledger WHERE idempotency_key='capture:o5'",
	},
	"I14": {
		"DELETE FROM outside_ledger WHERE idempotency_key='capture:o1'", "UPDATE outside_ledger SET amount_cents=999 WHERE idempotency_key='capture:o1'",
		"DELETE FROM outside_ledger WHERE kind='refund' AND order_id='o5'", "INSERT INTO outside_ledger VALUES('provider','capture:o2','capture','o2','c2',500,6)",
		"INSERT INTO outside_ledger VALUES('provider','x','refund','o1','c1',1000,6),('provider','y','capture','o1','c1',1000,6)", // net is right, but the money went to and fro
	},
	"I15": {
		"DELETE FROM inbox WHERE event_id='o1/order.created'", "DELETE FROM inbox WHERE consumer='order' AND event_id='o2/inventory.reserve_failed'",
		"UPDATE inbox SET status='PARKED' WHERE event_id='o2/inventory.reserve_failed'", "DELETE FROM dead_letter WHERE state='OPEN'",
	},
	"I16": {
		"INSERT INTO retry_message VALUES('inventory','o1/order.created',1,1)", "UPDATE dead_letter SET state='OPEN' WHERE event_id='o3/order.created'",
		"UPDATE dead_letter SET state='REPLAYING' WHERE event_id='o3/order.created'", "UPDATE dead_letter SET state='COMPENSATING' WHERE service='fulfilment'",
	},
	"I17": {"INSERT INTO inbox VALUES('order','xx','APPLIED','o1',1,'h',999,2)", "UPDATE inbox SET payload_hash='zz' WHERE event_id='o1/inventory.reserved'"},
	"I18": {"UPDATE inbox SET processed_no=999 WHERE consumer='payment' AND event_id='o1/order.created'"},
	"I20": {"UPDATE outbox SET status='PENDING' WHERE event_id='o1/order.paid'", "UPDATE outbox SET status='DEAD' WHERE event_id='o1/order.paid'"},
	"I21": {"INSERT INTO stock_ledger VALUES('l99','a','RESERVE',0,0,0,'r1','o1/order.created',2)"},
	"I22": {"UPDATE dead_letter SET closed_by=NULL WHERE state='REPLAYED'", "UPDATE dead_letter SET closed_at=NULL WHERE state='COMPENSATED'", "UPDATE dead_letter SET due_at=0 WHERE state='OPEN'"},
	"I23": {"DELETE FROM audit_log WHERE service='inventory' AND seq=2", "UPDATE audit_log SET action='dlq.replay' WHERE seq=2", "UPDATE audit_log SET action='dlq.replay' WHERE service='fulfilment'"},
	"I24": {
		"UPDATE audit_log SET row_hash='T' WHERE service='inventory' AND seq=1", "DELETE FROM audit_log WHERE service='inventory' AND seq=1",
		"UPDATE audit_log SET row_sum='T' WHERE service='order'", "UPDATE audit_log SET prev_hash='T' WHERE service='order'",
		"UPDATE audit_log SET seq=3 WHERE service='inventory' AND seq=2",
	},
	"H1": {"INSERT INTO client_answer VALUES('k2','o9')", "UPDATE order_items SET qty=3 WHERE order_id='o1'", "UPDATE orders SET request_key='k9' WHERE order_id='o1'"},
	"H2": {"DELETE FROM client_item WHERE request_key='k1'", "INSERT INTO orders VALUES('o9','k9','c1','CANCELLED',1,'now',1,1,1)"},
	"H3": {"INSERT INTO orders VALUES('o9','k1','c1','CANCELLED',1,'now',1,1,1)", "INSERT INTO client_answer VALUES('k1','o2')"},
	"H4": {
		"INSERT INTO order_items VALUES('o1','c',1)", "DELETE FROM inbox WHERE event_id='o1/order.created'", "DELETE FROM stock_ledger WHERE ledger_id='l1'",
		"UPDATE inbox SET status='REJECTED' WHERE event_id='o1/order.paid'",
	},
	"H8": {
		"UPDATE inbox SET status='APPLIED' WHERE status='COMPENSATED'", "UPDATE outbox SET causation_id='o7/order.paid', service='fulfilment' WHERE event_id='o7/inventory.sold'",
		"UPDATE dead_letter SET consumer='inventory' WHERE state='COMPENSATED'; UPDATE inbox SET status='COMPENSATED' WHERE event_id='o7/order.paid'",
		"UPDATE dead_letter SET consumer='marketing' WHERE state='COMPENSATED'; UPDATE inbox SET status='COMPENSATED' WHERE event_id='o7/order.paid'",
	},
	"H9": {
		"UPDATE orders SET status='CREATED' WHERE order_id='o1'", "DELETE FROM outbox WHERE event_id='o2/order.cancelled'", "UPDATE outbox SET event_type='order.pay_requested' WHERE event_id='o1/order.completed'",
		"UPDATE outbox SET event_type='order.cancelled' WHERE event_id='o1/order.paid'",
	},
	"H10": {"UPDATE outbox SET causation_id='o2/order.created' WHERE event_id='o1/payment.created'; DELETE FROM inbox WHERE event_id='o2/order.created'", "UPDATE inbox SET status='REJECTED' WHERE consumer='order' AND event_id='o1/inventory.reserved'"},
	"K1": {
		"DELETE FROM broker_log WHERE event_id='o1/order.paid'", "UPDATE broker_log SET event_id='o1/order.created' WHERE event_id='o1/order.paid'",
		"UPDATE outbox SET broker_partition=NULL, broker_offset=NULL; DELETE FROM broker_log WHERE event_id='o1/order.paid'", // no place is told
	},
	"K2": {
		"INSERT INTO broker_log VALUES('t',3,2000,'zz','order','o1',3,'h')", "UPDATE broker_log SET payload_hash='h' WHERE event_id='o1/order.paid'",
		"DELETE FROM planted WHERE kind='foreign'", "UPDATE broker_log SET aggregate_seq=15 WHERE event_id='o1/order.paid'",
	},
	"K3": {
		"UPDATE broker_log SET broker_offset=0 WHERE event_id='o1/order.paid'", "UPDATE broker_log SET broker_partition=7 WHERE event_id='o1/order.paid'",
		"DELETE FROM broker_log WHERE event_id='o1/order.created'",
	},
	"S1": {"UPDATE stock SET reserved=1, available=5 WHERE sku='a'"},
	"S2": {"DELETE FROM stock_ledger WHERE ledger_id='l2'", "DELETE FROM stock_ledger WHERE ledger_id='l13'", "UPDATE stock_ledger SET d_sold=1 WHERE ledger_id='l2'", "DELETE FROM stock_ledger WHERE ledger_id='l6'"},
	"M1": {"DELETE FROM outside_ledger WHERE system='provider'", "UPDATE outside_ledger SET amount_cents=1001 WHERE idempotency_key='capture:o1'", "DELETE FROM outside_ledger WHERE kind='refund' AND order_id='o5'", "UPDATE orders SET amount_cents=1 WHERE order_id='o6'"},
	"M2": {"UPDATE orders SET amount_cents=1001 WHERE order_id='o1'", "UPDATE orders SET customer_id='c2' WHERE order_id='o1'"},
	"M3": {
		"UPDATE outside_ledger SET amount_cents=401 WHERE kind='refund' AND order_id='o5'", "INSERT INTO outside_ledger VALUES('provider','refund:o1','refund','o2','c2',1,6)",
		"INSERT INTO outside_ledger VALUES('provider','void:o1','void','o1','c1',0,6)", "INSERT INTO outside_ledger VALUES('provider','void:none','void','none','',0,6)",
		"UPDATE outside_ledger SET customer_id='c9' WHERE idempotency_key='capture:o1'", "INSERT INTO outside_ledger VALUES('provider','capture:o2','capture','o2','c2',0,6)",
	},
	"M4": {
		"UPDATE payments SET state='VOIDED' WHERE order_id='o1'", "UPDATE payments SET state='CAPTURED' WHERE order_id='o5'", "UPDATE payments SET state='REFUNDED' WHERE order_id='o4'",
		"UPDATE payments SET state='DECLINED' WHERE order_id='o5'", "DELETE FROM payments WHERE order_id='o1'", "UPDATE payments SET amount_cents=1 WHERE order_id='o1'",
	},
	"R1": {
		"INSERT INTO outside_ledger VALUES('coupons','coupon:again','coupon','o1','c1',100,6)", "DELETE FROM outside_ledger WHERE idempotency_key='coupon:o1'", "UPDATE rewards SET coupon='' WHERE order_id='o1'",
		"INSERT INTO outside_ledger VALUES('coupons','coupon:o4','coupon','o4','c3',100,6)", "DELETE FROM outside_ledger WHERE kind='revocation'", "INSERT INTO outside_ledger VALUES('coupons','revocation:o1','revocation','o1','',0,6)",
		"UPDATE outside_ledger SET customer_id='c9' WHERE idempotency_key='coupon:o1'",
		"INSERT INTO outside_ledger VALUES('coupons','coupon:o6','coupon','o6','c4',1,6),('coupons','coupon:o6 again','coupon','o6','c4',1,6)", // once may be, twice not
	},
	"R2": {
		"INSERT INTO points_ledger VALUES('o1/order.created','GRANT','c1','o1',10)", "INSERT INTO points_ledger VALUES('o1/order.created','GRANT','c1','o1',0)", "UPDATE points_ledger SET points=11 WHERE order_id='o1'",
		"DELETE FROM points_ledger WHERE kind='REVOKE'", "UPDATE points_ledger SET customer_id='c9' WHERE order_id='o1'", "UPDATE rewards SET points=0 WHERE order_id='o3'",
	},
	"R3": {
		"DELETE FROM rewards WHERE order_id='o1'", "UPDATE rewards SET state='WAIVED' WHERE order_id='o1'", "UPDATE rewards SET state='GRANTED' WHERE order_id='o7'",
		"UPDATE dead_letter SET state='REPLAYED' WHERE service='marketing'",
	},
	"F1": {
		"INSERT INTO outside_ledger VALUES('carrier','shipment:again','shipment','o1','',0,6)", "DELETE FROM outside_ledger WHERE idempotency_key='shipment:o1'",
		"INSERT INTO outside_ledger VALUES('carrier','shipment:o4','shipment','o4','',0,6)", "INSERT INTO outside_ledger VALUES('carrier','cancellation:o1','cancellation','o1','',0,6)",
		"INSERT INTO outside_ledger VALUES('carrier','shipment:none','shipment','none','',0,6)", "UPDATE shipments SET state='BARRED' WHERE order_id='o1'", "UPDATE shipments SET state='SHIPPED' WHERE order_id='o4'",
	},
	"G1": {"UPDATE assessments SET state='REJECTED' WHERE order_id='o1'", "DELETE FROM assessments WHERE order_id='o1'", "UPDATE assessments SET state='HELD' WHERE order_id='o4'"},
	"A1": {"UPDATE client_act SET accepted=1 WHERE request_key='k6'", "DELETE FROM outside_ledger WHERE kind='refund' AND order_id='o5'", "INSERT INTO client_act VALUES('k9','cancel',1)"},
	"A2": {"DELETE FROM outside_ledger WHERE idempotency_key='capture:o6'", "UPDATE orders SET pay='later' WHERE order_id='o6'", "UPDATE orders SET status='CONFIRMED' WHERE order_id='o6'", "INSERT INTO client_act VALUES('k9','pay',1)"},
	"A3": {"INSERT INTO orders VALUES('o8','k8','c6','CREATED',9999999,'now',1,1,1)", "INSERT INTO client_answer VALUES('k8','o8')"},
	"T1": {"UPDATE orders SET status='COMPLETED' WHERE order_id='o4'", "INSERT INTO outside_ledger VALUES('provider','capture:o4','capture','o4','c3',300,6)"},
	"T2": {"UPDATE outbox SET not_before=sent_at+1 WHERE event_id='o1/order.payment_due'", "DELETE FROM outbox WHERE event_id='o1/order.payment_due'"},
	"T3": {"UPDATE orders SET status='PAID' WHERE order_id='o1'"},
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
	plant(t, f, goodState())
	if ids := broken(t, f); ids != nil {
		t.Errorf("false alarms: %v", ids)
	}
	all, _ := f.Check(t.Context())
	queries, err := parseQueries(invariantQueries)
	if err != nil || len(all) != len(queries) {
		t.Errorf("%d of %d invariants had something to examine (%v)", len(all), len(queries), err)
	}
}

func TestWhereNoPlaceIsToldAnEventMayStandAnywhereInTheLog(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState())
	plant(t, f, "UPDATE broker_log SET broker_offset=broker_offset+1000000 WHERE event_id='o1/order.completed'")
	if ids := broken(t, f); !slices.Contains(ids, "K1") {
		t.Errorf("it stands elsewhere than was told: %v", ids)
	}
	if err := f.unplace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids := broken(t, f); ids != nil {
		t.Errorf("no place was told, and alarm is given: %v", ids)
	}
}

// only leaves one order of the good state, as a run of one order would have it.
func only(t *testing.T, f *Facts, order string) {
	t.Helper()
	for _, table := range []string{"outbox", "inbox", "dead_letter"} {
		plant(t, f, "DELETE FROM "+table+" WHERE aggregate_id<>'"+order+"'")
	}
	for _, table := range []string{"orders", "order_items", "reservations", "payments", "assessments", "shipments", "rewards", "points_ledger", "outside_ledger", "client_answer"} {
		plant(t, f, "DELETE FROM "+table+" WHERE order_id<>'"+order+"'")
	}
	for _, table := range []string{"client_request", "client_item", "client_act"} {
		plant(t, f, "DELETE FROM "+table+" WHERE request_key<>'k"+order[1:]+"'")
	}
	plant(t, f, `DELETE FROM stock_ledger WHERE reservation_id NOT IN (SELECT reservation_id FROM reservations);
UPDATE stock SET available=initial_qty+(SELECT COALESCE(SUM(d_available),0) FROM stock_ledger l WHERE l.sku=stock.sku), sold=(SELECT COALESCE(SUM(d_sold),0) FROM stock_ledger l WHERE l.sku=stock.sku);
DELETE FROM broker_log WHERE aggregate_id<>'`+order+`'; DELETE FROM planted; DELETE FROM audit_log`)
}

func TestInvariantsRaiseNoAlarmOnARunOfOneOrderWhateverBecameOfIt(t *testing.T) {
	for n := 1; n <= 7; n++ {
		f := facts(t)
		plant(t, f, goodState())
		only(t, f, fmt.Sprint("o", n))
		// The dead letters' part of the audit log is not this order's alone.
		plant(t, f, "DELETE FROM dead_letter WHERE state<>'OPEN'; UPDATE inbox SET status='APPLIED' WHERE status='COMPENSATED'")
		all, err := f.Check(t.Context())
		if err != nil || len(all) < MinChecked-1 { // that of processes' lives is not among the queries
			t.Errorf("of order %d alone %d invariants had something to examine, %v; a proof needs %d", n, len(all), err, MinChecked)
		}
		if ids := broken(t, f); ids != nil {
			t.Errorf("false alarms on order %d alone: %v", n, ids)
		}
	}
}

func TestTheLossOfTheProvidersBooksIsFoundInARunOfOneOrder(t *testing.T) {
	for _, order := range []string{"o1", "o5"} {
		f := facts(t)
		plant(t, f, goodState())
		only(t, f, order)
		plant(t, f, "DELETE FROM outside_ledger WHERE system='provider'")
		if ids := broken(t, f); !slices.Contains(ids, "I13") || order == "o1" && !slices.Contains(ids, "M1") {
			t.Errorf("%s alone: found by %v", order, ids)
		}
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
				plant(t, f, goodState())
				plant(t, f, planted)
				inv, err := f.check(t.Context(), q)
				if err != nil || inv.Violations == 0 || len(inv.Examples) == 0 {
					t.Errorf("%+v, %v after %s; broken: %v", inv, err, planted, broken(t, f))
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
		if slices.Contains([]string{"I10", "I11", "I13", "I21", "I22", "I23", "I24", "H8", "M1", "M3", "A1", "A2", "A3", "T1"}, inv.ID) {
			t.Errorf("%s is not left out", inv.ID)
		}
	}
}

func TestOnlyTheFirstViolationsAreKeptAsExamplesButAllAreCounted(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState())
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
