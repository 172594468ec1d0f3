package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// shopDrill makes up the facts of a drill with six services: orders that go
// all the way, are short of stock, are cancelled while they are paid, become
// dead letters; and outages, during which nothing is published.
type shopDrill struct {
	rnd    *rand.Rand
	began  int64
	stalls [][2]int64
	rows   map[string][][]any
	offset int64
	no     int64
}

var shopColumns = map[string][]string{
	"orders":         {"order_id", "request_key", "customer_id", "status", "amount_cents", "pay", "version", "created_at", "updated_at"},
	"outbox":         {"event_id", "causation_id", "service", "event_type", "aggregate_type", "aggregate_id", "aggregate_seq", "payload_hash", "status", "created_at", "sent_at", "topic", "broker_partition", "broker_offset"},
	"broker_log":     {"topic", "broker_partition", "broker_offset", "event_id", "aggregate_type", "aggregate_id", "aggregate_seq", "payload_hash"},
	"inbox":          {"consumer", "event_id", "status", "aggregate_id", "attempts", "processed_no", "processed_at"},
	"dead_letter":    {"id", "service", "consumer", "event_id", "event_type", "aggregate_id", "class", "reason", "attempts", "state", "opened_at", "due_at", "closed_at", "closed_by"},
	"audit_log":      {"service", "seq", "at_us", "actor", "action", "target", "reason", "prev_hash", "row_hash", "row_sum"},
	"outside_ledger": {"system", "idempotency_key", "kind", "order_id", "customer_id", "amount_cents", "created_at"},
	"subscription":   {"consumer", "event_type"},
}

// shopFacts returns the path of the facts of n orders, and the report.
func shopFacts(t testing.TB, n int) (string, *Report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FactsFile)
	f, err := OpenFacts(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r := &Report{Began: time.UnixMicro(1_796_000_000_000_000), Seed: 3, Dir: filepath.Dir(path), Duration: 24}
	d := &shopDrill{rnd: rand.New(rand.NewPCG(3, 3)), began: r.Began.UnixMicro(), rows: map[string][][]any{}}
	d.breakThings(r)
	for i := range n {
		d.order(i, d.began+500_000+int64(i)*18_000_000/int64(n))
	}
	for group, types := range map[string][]string{"order": {"inventory.reserved"}, "inventory": {"order.created"}, "payment": nil, "risk": nil, "fulfilment": nil, "marketing": {"order.paid"}} {
		for _, eventType := range append(types, "order.cancelled") {
			d.add("subscription", group, eventType)
		}
	}
	for table, rows := range d.rows {
		if err := f.Insert(t.Context(), table, shopColumns[table], slices.Values(rows), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Count(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.DeadLettersLeft = r.DeadLettersOpen
	r.OrdersPerSecond = float64(n) / r.Duration
	for i := range MinChecked + 20 {
		r.Invariants = append(r.Invariants, Invariant{ID: fmt.Sprintf("I%02d", i), Name: "something that must hold", Checked: int64(100 * i)})
	}
	return path, r
}

// breakThings fills in faults and what was done when.
func (d *shopDrill) breakThings(r *Report) {
	at := 1.2
	for i, name := range slices.Concat(FaultNames(), FaultNames(), FaultNames()[:8]) {
		long := d.rnd.Float64() * 0.2
		if slices.Contains([]string{FaultBrokerStop, FaultBrokerCut, FaultPause, FaultCouponOutage}, name) {
			long = 0.6 + d.rnd.Float64()
		}
		if name == FaultBrokerStop || name == FaultPause {
			d.stalls = append(d.stalls, [2]int64{d.began + int64(at*1e6), d.began + int64((at+long)*1e6)})
		}
		r.Marks = append(r.Marks, Mark{Name: name, At: at, Until: at + long})
		at += 0.4
		if i < len(FaultNames()) {
			r.Faults = append(r.Faults, FaultCount{Name: name, Times: 2 + i%2})
		}
	}
	r.Marks = append(r.Marks, Mark{Name: MarkRepair, At: 21.5, Until: 21.9})
}

func (d *shopDrill) add(table string, row ...any) { d.rows[table] = append(d.rows[table], row) }

// soon is some milliseconds after a time.
func (d *shopDrill) soon(at int64) int64 { return at + 1500 + d.rnd.Int64N(15_000) }

// emit appends an event and publishes it, when nothing is in the way; it
// returns its id and when consumers have it.
func (d *shopDrill) emit(service, eventType, order, cause string, at int64) (string, int64) {
	d.offset++
	id := fmt.Sprintf("e%07d", d.offset)
	sent := d.soon(at)
	for _, s := range d.stalls {
		if sent >= s[0] && sent < s[1] {
			sent = d.soon(s[1] + d.rnd.Int64N(300_000))
		}
	}
	var from any
	if cause != "" {
		from = cause
	}
	partition := int64(len(order)*7+int(order[len(order)-1])) % 16
	d.add("outbox", id, from, service, eventType, service, order, d.offset, "h", "SENT", at, sent, "order-domain-event", partition, d.offset)
	copies := 1
	if d.offset%997 == 0 {
		copies = 2
	}
	for i := range copies {
		d.add("broker_log", "order-domain-event", partition, d.offset+int64(i)*1e7, id, service, order, d.offset, "h")
	}
	return id, d.soon(sent)
}

func (d *shopDrill) apply(group, id, order string, attempts int, at int64) {
	d.no++
	d.add("inbox", group, id, "APPLIED", order, attempts, d.no, at)
}

// react applies an event and emits the next.
func (d *shopDrill) react(group, cause, order, eventType string, at int64) (string, int64) {
	d.apply(group, cause, order, 1, at)
	return d.emit(group, eventType, order, cause, at)
}

func (d *shopDrill) order(i int, placed int64) {
	order, customer, cents := fmt.Sprintf("o-%06d", i), fmt.Sprintf("c-%d", i%500), int64(500+i%9000)
	created, at := d.emit("order", "order.created", order, "", placed)
	end, status := d.cancelled(i, order, created, at, cents)
	if status == "" {
		end, status = d.paid(i, order, customer, created, at, cents)
	}
	d.add("orders", order, "k"+order, customer, status, cents, "now", 1, placed, end)
}

// cancelled plays an order that is short of stock, or that its customer
// cancels while it is paid.
func (d *shopDrill) cancelled(i int, order, created string, at, cents int64) (int64, string) {
	switch {
	case i%40 == 7:
		failed, at := d.react("inventory", created, order, "inventory.reserve_failed", at)
		_, end := d.react("order", failed, order, "order.cancelled", at)
		return end, "CANCELLED"
	case i%90 == 11:
		held, at := d.react("inventory", created, order, "inventory.reserved", at)
		d.apply("order", held, order, 1, at)
		cancelled, end := d.emit("order", "order.cancelled", order, "", at+30_000)
		d.add("outside_ledger", "provider", order, "capture", order, "c", cents, at+25_000)
		d.add("outside_ledger", "provider", order+"/refund", "refund", order, "c", cents, end+20_000)
		d.emit("payment", "payment.succeeded", order, held, at+40_000)
		_, _ = d.react("payment", cancelled, order, "payment.refunded", end)
		_, _ = d.react("inventory", cancelled, order, "inventory.released", end+9_000)
		d.apply("marketing", cancelled, order, 1, end+12_000)
		return end, "CANCELLED"
	}
	return 0, ""
}

// paid plays an order that goes all the way.
func (d *shopDrill) paid(i int, order, customer, created string, at, cents int64) (int64, string) {
	held, heldAt := d.react("inventory", created, order, "inventory.reserved", at)
	approved, approvedAt := d.react("risk", created, order, "risk.approved", at)
	_, _ = d.react("payment", created, order, "payment.created", at)
	_, _ = d.react("order", held, order, "order.reserved", heldAt)
	confirmed, at := d.react("order", approved, order, "order.confirmed", max(heldAt, approvedAt))
	d.add("outside_ledger", "provider", order, "capture", order, customer, cents, at+4_000)
	succeeded, at := d.react("payment", confirmed, order, "payment.succeeded", at+9_000)
	paid, at := d.react("order", succeeded, order, "order.paid", at)
	_, _ = d.react("inventory", paid, order, "inventory.sold", at)
	attempts := 1
	if i%50 == 3 {
		attempts, at = 4, at+1_700_000
	}
	d.apply("fulfilment", paid, order, attempts, at)
	d.add("outside_ledger", "carrier", order, "shipment", order, customer, 0, at-3_000)
	shipped, at := d.emit("fulfilment", "fulfilment.shipped", order, paid, at)
	d.reward(i, order, paid, at)
	_, end := d.react("order", shipped, order, "order.completed", at)
	return end, "COMPLETED"
}

// reward grants it, or makes a dead letter of it, which stays or is replayed.
func (d *shopDrill) reward(i int, order, paid string, at int64) {
	if i%100 != 5 {
		_, _ = d.react("marketing", paid, order, "marketing.granted", at)
		return
	}
	repaired := d.began + 21_500_000
	state, closed, by := "OPEN", any(nil), any(nil)
	if i > 200 {
		state, closed, by = "REPLAYED", repaired, "demo"
		_, _ = d.react("marketing", paid, order, "marketing.granted", repaired+80_000)
		d.add("audit_log", "marketing", i, repaired, "demo", "dlq.replay", "marketing:"+paid, "the coupon system answers again", "", "", "")
	}
	d.add("dead_letter", i, "marketing", "marketing", paid, "order.paid", order, "handler_error", "coupon system: no answer within 300 ms", 4, state, at+1_200_000, at+9e10, closed, by)
}
