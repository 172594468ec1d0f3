package shop

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// orderStep is one event of one order coming in, or being given up.
type orderStep struct {
	order int
	event string
	undo  bool
}

func (s orderStep) String() string {
	if s.undo {
		return fmt.Sprintf("giving up %s of order %d", s.event, s.order)
	}
	return fmt.Sprintf("%s of order %d", s.event, s.order)
}

// orderSteps draws what may come in at a service, in any order and repeated.
func orderSteps(p participant, orders, most int) *rapid.Generator[[]orderStep] {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) orderStep {
		r := rapid.SampledFrom(p.reactions()).Draw(rt, "event")
		return orderStep{
			order: rapid.IntRange(0, orders-1).Draw(rt, "order"), event: r.on,
			undo: r.undo != nil && rapid.IntRange(0, 3).Draw(rt, "undo") == 0,
		}
	}), most/2, most)
}

// shelf is how many pieces of one article there are, and where.
type shelf struct{ initial, available, reserved, sold int }

// stockModel says what the inventory ought to do, in its own words: it knows
// nothing of states, only what came and who holds what.
type stockModel struct {
	shelves map[string]*shelf
	orders  map[string]*heldOrder
}

type heldOrder struct {
	answered, paid, cancelled bool
	holds, owns               []Item
	says                      []string
}

func (m *stockModel) takes(orderID string, step orderStep, lines []Item) {
	o := m.orders[orderID]
	if o == nil {
		o = &heldOrder{}
		m.orders[orderID] = o
	}
	switch {
	case step.event == lifecycle.OrderCreated && !o.answered:
		o.answered = true
		m.answer(o, lines, step.undo || o.cancelled)
	case step.event == lifecycle.OrderPaid && !o.answered:
		o.paid = true
	case step.event == lifecycle.OrderPaid && o.holds != nil:
		m.sell(o)
	case step.event == lifecycle.OrderCancelled && !o.answered:
		o.cancelled = true
	case step.event == lifecycle.OrderCancelled && (o.holds != nil || o.owns != nil):
		for _, it := range o.holds {
			m.shelves[it.SKU].reserved -= it.Quantity
			m.shelves[it.SKU].available += it.Quantity
		}
		for _, it := range o.owns {
			m.shelves[it.SKU].sold -= it.Quantity
			m.shelves[it.SKU].available += it.Quantity
		}
		o.holds, o.owns, o.says = nil, nil, append(o.says, lifecycle.InventoryReleased)
	}
}

// answer tells an order whether it gets its lines.
func (m *stockModel) answer(o *heldOrder, lines []Item, refused bool) {
	short := slices.ContainsFunc(lines, func(it Item) bool { return m.shelves[it.SKU].available < it.Quantity })
	if refused || short {
		o.says = append(o.says, lifecycle.InventoryReserveFailed)
		return
	}
	for _, it := range lines {
		m.shelves[it.SKU].available -= it.Quantity
		m.shelves[it.SKU].reserved += it.Quantity
	}
	o.holds = lines
	if o.paid {
		m.sell(o)
		return
	}
	o.says = append(o.says, lifecycle.InventoryReserved)
}

func (m *stockModel) sell(o *heldOrder) {
	for _, it := range o.holds {
		m.shelves[it.SKU].reserved -= it.Quantity
		m.shelves[it.SKU].sold += it.Quantity
	}
	o.holds, o.owns, o.says = nil, o.holds, append(o.says, lifecycle.InventorySold)
}

// wrongStock lists the articles whose stock is not what ledger and
// reservations say.
const wrongStock = `SELECT COUNT(*) FROM t_stock s WHERE available < 0 OR reserved < 0 OR sold < 0 OR initial_qty <> available + reserved + sold
 OR available <> initial_qty + COALESCE((SELECT SUM(d_available) FROM t_stock_ledger l WHERE l.sku = s.sku), 0)
 OR reserved <> COALESCE((SELECT SUM(d_reserved) FROM t_stock_ledger l WHERE l.sku = s.sku), 0)
 OR sold <> COALESCE((SELECT SUM(d_sold) FROM t_stock_ledger l WHERE l.sku = s.sku), 0)
 OR reserved <> COALESCE((SELECT SUM(qty) FROM t_reservation_line r WHERE r.sku = s.sku AND r.state = 'RESERVED'), 0)
 OR sold <> COALESCE((SELECT SUM(qty) FROM t_reservation_line r WHERE r.sku = s.sku AND r.state = 'CONFIRMED'), 0)`

// check compares the tables with each other and with the model.
func (m *stockModel) check(ctx context.Context, tx *sql.Tx) error {
	var bad int
	if err := tx.QueryRowContext(ctx, wrongStock).Scan(&bad); err != nil || bad != 0 {
		return fmt.Errorf("stock, ledger and reservations differ for %d articles: %w", bad, err)
	}
	for sku, want := range m.shelves {
		var got shelf
		err := tx.QueryRowContext(ctx, `SELECT initial_qty, available, reserved, sold FROM t_stock WHERE sku = $1`, sku).Scan(&got.initial, &got.available, &got.reserved, &got.sold)
		if err != nil || got != *want {
			return fmt.Errorf("%s: stock is %+v; want %+v: %w", sku, got, *want, err)
		}
	}
	for id, o := range m.orders {
		if err := checkSays(ctx, tx, id, o.says); err != nil {
			return err
		}
	}
	return nil
}

// checkSays compares the events of an order's aggregate with what is wanted.
func checkSays(ctx context.Context, tx *sql.Tx, orderID string, want []string) error {
	var said sql.NullString
	var last, count int
	err := tx.QueryRowContext(ctx, `SELECT GROUP_CONCAT(event_type), COALESCE(MAX(aggregate_seq), 0), COUNT(*) FROM
(SELECT event_type, aggregate_seq FROM t_outbox_event WHERE aggregate_id = $1 ORDER BY aggregate_seq)`, orderID).Scan(&said, &last, &count)
	if err != nil {
		return err
	}
	if said.String != strings.Join(want, ",") || last != count {
		return fmt.Errorf("%s: it says %q, the last with number %d; want %q", orderID, said.String, last, want)
	}
	return nil
}

// runStock lets events come in at the inventory and compares it with the model
// after each. It leaves nothing in the database.
func runStock(ctx context.Context, s *inventoryService, steps []orderStep) (m *stockModel, err error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := raise(ctx, s.db, tx, []Level{{"a", 5}, {"b", 3}}); err != nil {
		return nil, err
	}
	m = &stockModel{shelves: map[string]*shelf{"a": {initial: 5, available: 5}, "b": {initial: 3, available: 3}}, orders: map[string]*heldOrder{}}
	for _, step := range steps {
		id, lines := fmt.Sprint("o", step.order), []Item{{"a", 1 + step.order%2*2}, {"b", 1}}
		e, err := orderEvent(step.event, 1, "trace", "", orderFacts{OrderID: id, CustomerID: "c", Items: lines})
		if err != nil {
			return nil, err
		}
		e.ID = settle.NewID()
		if err := handled(ctx, s, tx, e, step.undo); err != nil {
			return nil, fmt.Errorf("%v: %w", step, err)
		}
		m.takes(id, step, lines)
		if err := m.check(ctx, tx); err != nil {
			return nil, fmt.Errorf("after %v: %w", step, err)
		}
	}
	return m, nil
}

func TestStockIsRightWhateverOrderEventsComeIn(t *testing.T) {
	s := inventoryIn(t, t.TempDir())
	said := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		m, err := runStock(t.Context(), s, orderSteps(s, 4, 30).Draw(rt, "steps"))
		if err != nil {
			rt.Fatal(err)
		}
		for _, o := range m.orders {
			said[strings.Join(o.says, ",")]++
		}
	})
	for _, story := range []string{
		"inventory.reserve_failed", "inventory.reserved,inventory.sold,inventory.released", "inventory.reserved,inventory.released",
		"inventory.sold", "inventory.sold,inventory.released",
	} {
		if said[story] == 0 {
			t.Errorf("no order went %s: the test shows too little", story)
		}
	}
}

func TestTheStockModelNoticesEachWrongTable(t *testing.T) {
	right, giveUp := lifecycle.Reservation(), lifecycle.Compensation(lifecycle.OrderCreated)
	for name, row := range map[string]lifecycle.Transition{
		"paid but not sold":            {From: lifecycle.ReservationReserved, On: lifecycle.OrderPaid, To: lifecycle.ReservationReserved},
		"cancelled but not given":      {From: lifecycle.ReservationReserved, On: lifecycle.OrderCancelled, To: lifecycle.ReservationReserved},
		"sold and not returned":        {From: lifecycle.ReservationConfirmed, On: lifecycle.OrderCancelled, To: lifecycle.ReservationConfirmed},
		"prepaid is forgotten":         {From: lifecycle.ReservationPrepaid, On: lifecycle.OrderCreated, When: lifecycle.InStock, To: lifecycle.ReservationReserved, Emits: lifecycle.InventoryReserved},
		"an early cancel is forgotten": {From: lifecycle.None, On: lifecycle.OrderCancelled, To: lifecycle.None},
		"given up after all":           {From: lifecycle.ReservationReserved, On: giveUp, To: lifecycle.ReservationReleased, Emits: lifecycle.InventoryReleased},
	} {
		s := inventoryIn(t, t.TempDir())
		s.reservations.machine = withRow(right, row)
		found := false
		for seed := 0; seed < 300 && !found; seed++ {
			_, err := runStock(t.Context(), s, orderSteps(s, 4, 30).Example(seed))
			found = err != nil
		}
		if !found {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}

func TestTheStockCheckNoticesEachWrongRow(t *testing.T) {
	dir := t.TempDir()
	s := inventoryIn(t, dir)
	if err := Stock(t.Context(), dir, Level{"a", 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.handle(t, createdEvent(t, "o1", Item{"a", 2})); err != nil {
		t.Fatal(err)
	}
	for _, planted := range []string{
		`DELETE FROM t_stock_ledger`,
		`UPDATE t_reservation_line SET state = 'RELEASED'`,
		`UPDATE t_reservation_line SET state = 'CONFIRMED'`,
		`UPDATE t_stock SET available = available + 1, reserved = reserved - 1`,
		`UPDATE t_stock SET available = available - 1, sold = sold + 1`,
	} {
		tx, err := s.db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(planted); err != nil {
			t.Fatal(err)
		}
		if number(t, tx, wrongStock) == 0 {
			t.Errorf("%s: not noticed", planted)
		}
		_ = tx.Rollback()
	}
	if number(t, s.db.Reader, wrongStock) != 0 {
		t.Error("what is right is called wrong")
	}
}

// refusedStates lists which of the states a machine may be in, and which it
// may not, a table takes otherwise.
func refusedStates(t *testing.T, a aggregate) []string {
	t.Helper()
	var wrong []string
	for _, state := range append(a.machine.States(), "ELSEWHERE") {
		err := inTx(t.Context(), a.db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), fmt.Sprintf(saveInstance, a.table), "o-"+state, state, 1, 1)
			return err
		})
		if (err == nil) != (state != lifecycle.None && state != "ELSEWHERE") {
			wrong = append(wrong, state)
		}
	}
	return wrong
}

func TestTheReservationTableTakesTheStatesOfItsMachineAndNoOther(t *testing.T) {
	s := inventoryIn(t, t.TempDir())
	if wrong := refusedStates(t, s.reservations); len(wrong) != 0 {
		t.Errorf("wrong: %q", wrong)
	}
}

func TestGivingUpAReservationTwiceIsGivingUpOnceAndNothingOnceItHasMovedOn(t *testing.T) {
	created, paid, cancelled := lifecycle.OrderCreated, lifecycle.OrderPaid, lifecycle.OrderCancelled
	for state, story := range map[string][]string{
		lifecycle.None:                 {},
		lifecycle.ReservationPrepaid:   {paid},
		lifecycle.ReservationBarred:    {cancelled},
		lifecycle.ReservationReserved:  {created},
		lifecycle.ReservationConfirmed: {created, paid},
		lifecycle.ReservationReleased:  {created, paid, cancelled},
		lifecycle.ReservationFailed:    {cancelled, created},
	} {
		dir := t.TempDir()
		s := inventoryIn(t, dir)
		if err := Stock(t.Context(), dir, Level{"a", 5}); err != nil {
			t.Fatal(err)
		}
		take := func(kind string, undo bool) {
			e := createdEvent(t, "o1", Item{"a", 2})
			e.Type = kind
			if err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return handled(t.Context(), s, tx, e, undo) }); err != nil {
				t.Fatalf("%s when %q: %v", kind, state, err)
			}
		}
		for _, kind := range story {
			take(kind, false)
		}
		look := `SELECT CONCAT_WS(' ', available, reserved, sold, (SELECT state FROM t_reservation), (SELECT GROUP_CONCAT(event_type) FROM t_outbox_event)) FROM t_stock`
		before := text(t, s.db.Reader, look)
		take(created, true)
		once := text(t, s.db.Reader, look)
		take(created, true)
		if twice := text(t, s.db.Reader, look); twice != once {
			t.Errorf("%q: given up once it is %s, twice %s", state, once, twice)
		}
		if !slices.Contains([]string{lifecycle.None, lifecycle.ReservationPrepaid, lifecycle.ReservationBarred}, state) {
			if once != before {
				t.Errorf("%q: it was %s and is %s", state, before, once)
			}
			continue
		}
		for _, late := range []string{created, paid, cancelled} {
			take(late, false)
		}
		if late := text(t, s.db.Reader, look); once != "5 0 0 FAILED inventory.reserve_failed" || late != once {
			t.Errorf("%q: given up it is %s, and %s after what came late", state, once, late)
		}
	}
}

func TestAnOrderWithALineThatCannotBeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := inventoryIn(t, dir)
	if err := Stock(t.Context(), dir, Level{"a", 5}, Level{"b", 5}); err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]Item{{{"a", 1}, {"b", 0}}, {{"a", 1}, {"b", -1}}, {{"a", 1}, {"a", 1}}} {
		if err := s.handle(t, createdEvent(t, "o1", lines...)); err == nil {
			t.Errorf("%v is taken", lines)
		}
		for _, table := range []string{"t_reservation", "t_reservation_line", "t_stock_ledger", "t_outbox_event", "t_stock WHERE available <> 5"} {
			if n := number(t, s.db.Reader, `SELECT COUNT(*) FROM `+table); n != 0 {
				t.Errorf("%v left %d rows in %s", lines, n, table)
			}
		}
	}
}
