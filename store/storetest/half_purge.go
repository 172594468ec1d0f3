package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle/txmsg"
)

func halfPurged(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.commit("2")
	h.judge("3", txmsg.Rollback)
	h.must(h.Ledger.Confirm(h.ctx, []string{"1"}))
	purge := func(want int) {
		t.Helper()
		if n, err := h.Ledger.Purge(h.ctx, time.Hour, 10); n != want || err != nil {
			t.Fatalf("Purge: %d, %v; want %d", n, err, want)
		}
	}
	purge(0)
	h.Advance(2 * time.Hour)
	purge(2)
	h.due(1)
	if stages, _ := h.stages("e-3"); len(stages) != 0 {
		t.Errorf("of what was deleted there is %v", stages)
	}
}

func halfAnswersPurged(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	for range 12 {
		h.judge("1", txmsg.Rollback)
	}
	h.Advance(2 * time.Hour)
	for _, want := range []int{10, 2, 0} {
		if n, err := h.Ledger.Purge(h.ctx, time.Hour, 10); n != want || err != nil {
			t.Fatalf("Purge: %d, %v; want %d", n, err, want)
		}
	}
}
