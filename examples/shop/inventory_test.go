package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// memberIn opens one service in dir.
func memberIn(t testing.TB, dir, name string) participant {
	t.Helper()
	m, err := openMember(t.Context(), name, Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.db.Close() })
	return m.participant
}

func inventoryIn(t testing.TB, dir string) *inventoryService {
	t.Helper()
	return memberIn(t, dir, "inventory").(*inventoryService)
}

// rowQuerier is a database or a transaction.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func number(t testing.TB, db rowQuerier, query string, args ...any) int64 {
	t.Helper()
	var n int64
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func text(t testing.TB, db rowQuerier, query string, args ...any) string {
	t.Helper()
	var s string
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

func createdEvent(t testing.TB, orderID string, lines ...Item) *settle.Event {
	t.Helper()
	payload, err := json.Marshal(orderFacts{OrderID: orderID, CustomerID: "c", Items: lines})
	if err != nil {
		t.Fatal(err)
	}
	return &settle.Event{ID: settle.NewID(), Type: lifecycle.OrderCreated, AggregateID: orderID, BizKey: "c", TraceID: "trace", Payload: payload}
}

// handled passes e to what its service does on it, or to what undoes it.
func handled(ctx context.Context, p participant, tx *sql.Tx, e *settle.Event, undo bool) error {
	for _, r := range p.reactions() {
		switch {
		case r.on == e.Type && undo:
			return r.undo(ctx, tx, e)
		case r.on == e.Type:
			return r.do(ctx, tx, e)
		}
	}
	return fmt.Errorf("nobody listens to %s", e.Type)
}

// handle passes e to the handler of its type, in a transaction of its own.
func (s *inventoryService) handle(t testing.TB, e *settle.Event) error {
	t.Helper()
	return inTx(t.Context(), s.db, func(tx *sql.Tx) error { return handled(t.Context(), s, tx, e, false) })
}

func TestTheTableRefusesStockBelowZero(t *testing.T) {
	onEachDatabase(t, testTheTableRefusesStockBelowZero)
}

func testTheTableRefusesStockBelowZero(t *testing.T, dir string) {
	s := inventoryIn(t, dir)
	if err := Stock(t.Context(), dir, Level{"a", 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.handle(t, createdEvent(t, "o1", Item{"a", 1})); err != nil {
		t.Fatal(err)
	}
	for _, m := range []movement{
		{kind: "RESERVE", available: -1, reserved: 1},
		{kind: "RELEASE", available: 2, reserved: -2},
		{kind: "RETURN", available: 1, sold: -1},
		{kind: "SELL", sold: 1},
	} {
		m.from = "RESERVED"
		err := inTx(t.Context(), s.db, func(tx *sql.Tx) error {
			return s.move(t.Context(), tx, instance{orderID: "o1", event: &settle.Event{ID: "e"}}, m)
		})
		if err == nil || !strings.Contains(strings.ToUpper(err.Error()), "CHECK") && !strings.Contains(err.Error(), "CONSTRAINT") {
			t.Errorf("%+v: got %v", m, err)
		}
	}
}

func TestAllLinesAreReservedOrNone(t *testing.T) { onEachDatabase(t, testAllLinesAreReservedOrNone) }

func testAllLinesAreReservedOrNone(t *testing.T, dir string) {
	s := inventoryIn(t, dir)
	if err := Stock(t.Context(), dir, Level{"a", 5}, Level{"b", 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.handle(t, createdEvent(t, "o1", Item{"a", 2}, Item{"b", 2})); err != nil {
		t.Fatal(err)
	}
	if held := number(t, s.db.Reader, `SELECT SUM(reserved) FROM t_stock`); held != 0 {
		t.Errorf("%d pieces are held for an order that failed", held)
	}
	var payload string
	if err := s.db.Reader.QueryRow("SELECT payload FROM t_outbox_event WHERE event_type = '" + lifecycle.InventoryReserveFailed + "'").Scan(&payload); err != nil || !strings.Contains(payload, "2 of b asked for, 1 available") {
		t.Errorf("the failure says %s, %v", payload, err)
	}
	if err := s.handle(t, createdEvent(t, "o2", Item{"a", 5}, Item{"b", 1})); err != nil {
		t.Fatal(err)
	}
	if left := number(t, s.db.Reader, `SELECT SUM(available) FROM t_stock`); left != 0 {
		t.Errorf("%d pieces are left; want 0", left)
	}
}

func TestAnUnknownArticleIsAnErrorUntilItIsStocked(t *testing.T) {
	onEachDatabase(t, testAnUnknownArticleIsAnErrorUntilItIsStocked)
}

func testAnUnknownArticleIsAnErrorUntilItIsStocked(t *testing.T, dir string) {
	s := inventoryIn(t, dir)
	e := createdEvent(t, "o1", Item{"new", 1})
	err := s.handle(t, e)
	if err == nil || settle.IsPermanent(err) || settle.IsUnavailable(err) || !strings.Contains(err.Error(), "sku new is not stocked") {
		t.Fatalf("got %v; want an error that is retried", err)
	}
	if err := Stock(t.Context(), dir, Level{"new", 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.handle(t, e); err != nil {
		t.Fatal(err)
	}
	if held := number(t, s.db.Reader, `SELECT reserved FROM t_stock WHERE sku = 'new'`); held != 1 {
		t.Errorf("%d held; want 1", held)
	}
}

func TestStockingAgainChangesNothingAndMoreRaises(t *testing.T) {
	onEachDatabase(t, testStockingAgainChangesNothingAndMoreRaises)
}

func testStockingAgainChangesNothingAndMoreRaises(t *testing.T, dir string) {
	s := inventoryIn(t, dir)
	for _, c := range []struct{ level, want int64 }{{5, 5}, {5, 5}, {3, 5}, {8, 8}} {
		if err := Stock(t.Context(), dir, Level{"a", c.level}); err != nil {
			t.Fatal(err)
		}
		if got := number(t, s.db.Reader, `SELECT initial_qty FROM t_stock WHERE sku = 'a' AND available = initial_qty`); got != c.want {
			t.Errorf("after level %d there are %d; want %d", c.level, got, c.want)
		}
	}
	for _, bad := range []Level{{"", 1}, {"a b", 1}, {"a", -1}, {"a", maxStock + 1}} {
		if err := Stock(t.Context(), dir, Level{"ok", 1}, bad); err == nil {
			t.Errorf("level %v is taken", bad)
		}
	}
	if n := number(t, s.db.Reader, `SELECT COUNT(*) FROM t_stock`); n != 1 {
		t.Errorf("%d articles; want 1: a list with a bad level sets none", n)
	}
}

func TestAPayloadThatCannotBeReadIsADeadLetterAtOnce(t *testing.T) {
	s := inventoryIn(t, t.TempDir())
	for _, payload := range []string{`{}`, `[]`, `{"items":"x"}`, `{"items":[{"sku":1}]}`} {
		e := createdEvent(t, "o1")
		e.Payload = []byte(payload)
		if err := s.handle(t, e); !settle.IsPermanent(err) {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}
