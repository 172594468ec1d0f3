package shop

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// missingRows lists every (state, event, condition) that a machine has no row
// for, or more than one.
func missingRows(table []transition, states, events, conditions []string) []string {
	var bad []string
	for _, state := range states {
		for _, event := range events {
			for _, when := range conditions {
				n := 0
				for _, t := range table {
					if t.from == state && t.on == event && (t.when == "" || t.when == when) {
						n++
					}
				}
				if n != 1 {
					bad = append(bad, state+" on "+event+" "+when)
				}
			}
		}
	}
	return bad
}

func TestEveryStateHasOneAnswerToEveryEvent(t *testing.T) {
	orderStates := []string{StatusCreated, StatusReserved, StatusCancelled}
	orderEvents := []string{InventoryReserved, InventoryReserveFailed}
	if bad := missingRows(orderMachine(), orderStates, orderEvents, []string{""}); len(bad) > 0 {
		t.Errorf("order: %v", bad)
	}
	states := []string{reservationNone, reservationReserved, reservationFailed, reservationReleased, reservationBarred}
	if bad := missingRows(reservationMachine(), states, []string{OrderCreated, OrderCancelled}, []string{inStock, short}); len(bad) > 0 {
		t.Errorf("reservation: %v", bad)
	}
	if bad := missingRows(orderMachine()[1:], orderStates, orderEvents, []string{""}); len(bad) != 1 {
		t.Errorf("a row that was taken out is not missed: %v", bad)
	}
}

func TestAnOrderIsDecidedOnceByWhateverComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.SampledFrom([]string{InventoryReserved, InventoryReserveFailed}), 1, 12).Draw(t, "events")
		state, emitted := StatusCreated, []string{}
		for _, e := range events {
			row, ok := next(orderMachine(), state, e, "")
			if !ok {
				t.Fatalf("%s has no answer to %s", state, e)
			}
			if row.changes() {
				emitted = append(emitted, row.emits)
			}
			state = row.to
		}
		want := map[string][]string{InventoryReserved: {StatusReserved, OrderReserved}, InventoryReserveFailed: {StatusCancelled, OrderCancelled}}[events[0]]
		if state != want[0] || !slices.Equal(emitted, want[1:]) {
			t.Fatalf("after %v: %s, emitted %v; want %v", events, state, emitted, want)
		}
	})
}

func TestACancelledReservationHoldsNothingInWhateverOrderEventsCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.SampledFrom([]string{OrderCreated, OrderCancelled}), 1, 12).Draw(t, "events")
		conditions := rapid.SliceOfN(rapid.SampledFrom([]string{inStock, short}), len(events), len(events)).Draw(t, "stock")
		state, emitted := reservationNone, []string{}
		for i, e := range events {
			row, ok := next(reservationMachine(), state, e, conditions[i])
			if !ok {
				t.Fatalf("%s has no answer to %s", state, e)
			}
			if row.emits != "" {
				emitted = append(emitted, row.emits)
			}
			state = row.to
		}
		created, cancelled := slices.Contains(events, OrderCreated), slices.Contains(events, OrderCancelled)
		var want []string
		switch first := slices.Index(events, OrderCreated); {
		case !created:
		case slices.Index(events, OrderCancelled) >= 0 && slices.Index(events, OrderCancelled) < first, conditions[first] == short:
			want = []string{InventoryReserveFailed}
		case cancelled:
			want = []string{InventoryReserved, InventoryReleased}
		default:
			want = []string{InventoryReserved}
		}
		if !slices.Equal(emitted, want) {
			t.Fatalf("after %v with %v: emitted %v, want %v", events, conditions, emitted, want)
		}
		if cancelled && state == reservationReserved {
			t.Fatalf("after %v the stock of a cancelled order is held", events)
		}
	})
}
