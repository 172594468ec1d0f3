package outside

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wrongs returns what can't be in a provider's ledger when clients use the
// keys that the shop uses: a second effect of an order, or more given back
// than was taken.
func wrongs(rows []string) []string {
	var wrong []string
	seen, captured, refunded := map[string]bool{}, map[string]int64{}, map[string]int64{}
	for _, row := range rows {
		var kind, order, customer, key string
		var cents int64
		if _, err := fmt.Sscanf(row, "%s %s %s %d %s", &kind, &order, &customer, &cents, &key); err != nil {
			wrong = append(wrong, row+": "+err.Error())
			continue
		}
		if seen[kind+order] {
			wrong = append(wrong, "a second "+kind+" of "+order)
		}
		seen[kind+order] = true
		switch kind {
		case KindCapture:
			captured[order] += cents
		case KindRefund:
			refunded[order] += cents
		}
	}
	for order := range refunded {
		if refunded[order] > captured[order] {
			wrong = append(wrong, "too much given back for "+order)
		}
	}
	return wrong
}

func TestAnySequenceOfMisbehaviourWithRetriesHasOneEffect(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	clients := map[bool]*Provider{} // whether it has patience
	for patience, timeout := range map[bool]time.Duration{false: 10 * time.Millisecond, true: 20 * time.Second} {
		cfg := patient(s)
		cfg.Timeout = timeout
		clients[patience] = NewProvider(cfg)
		t.Cleanup(clients[patience].Close)
	}
	orders := 0
	rapid.Check(t, func(rt *rapid.T) {
		orders++
		order := fmt.Sprint("o-", orders)
		// Asks in any weather, and then until it has an answer.
		until := func(call func(*Provider) error) {
			for _, mode := range rapid.SliceOfN(rapid.SampledFrom(Modes()), 0, 4).Draw(rt, "modes") {
				late := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(rt, "late")
				share := rapid.Float64Range(0.3, 1).Draw(rt, "share")
				s.tell(t, Misbehaviour{Mode: mode, Delay: late, Share: share})
				if call(clients[false]) == nil {
					return
				}
			}
			s.tell(t, Misbehaviour{Mode: ModeOK})
			if err := call(clients[true]); err != nil {
				rt.Fatalf("it behaves: %v", err)
			}
		}
		var want []string
		if rapid.Bool().Draw(rt, "captured") {
			until(func(p *Provider) error {
				_, err := p.Capture(t.Context(), order, "c-1", 990)
				return err
			})
			want = append(want, KindCapture)
		}
		if rapid.Bool().Draw(rt, "voided") {
			until(func(p *Provider) error {
				_, err := p.Void(t.Context(), order)
				return err
			})
			want = append(want, KindVoid)
			if len(want) == 2 {
				want = append(want, KindRefund)
			}
		}
		got := kinds(slices.DeleteFunc(s.rows(t), func(row string) bool { return !strings.Contains(row, " "+order+" ") }))
		if !slices.Equal(got, want) {
			rt.Fatalf("ledger of %s: %q; want %q", order, got, want)
		}
	})
	if wrong := wrongs(s.rows(t)); len(wrong) > 0 {
		t.Error(wrong)
	}
	for _, mode := range Modes() {
		if mode != ModeOK && s.standing(t).Misbehaved[mode] == 0 {
			t.Errorf("%s never happened", mode)
		}
	}
	// The check itself: an effect that is doubled under another key is noticed.
	s.tell(t, Misbehaviour{Mode: ModeOK})
	for _, key := range []string{"capture:o-x", "capture:o-x:2"} {
		s.post(t, "/captures", key, `{"order_id":"o-x","customer_id":"c-1","amount_cents":990}`)
	}
	if wrong := wrongs(s.rows(t)); !slices.Equal(wrong, []string{"a second capture of o-x"}) {
		t.Errorf("a doubled capture: %v", wrong)
	}
	if wrong := wrongs([]string{"capture o c 5 k", "refund o c 6 k2"}); len(wrong) != 1 {
		t.Errorf("too large a refund: %v", wrong)
	}
}

func TestARaceOfCapturesAndVoidsLosesNoMoney(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	cfg := patient(s)
	cfg.Timeout = 20 * time.Second
	p := NewProvider(cfg)
	defer p.Close()
	const orders, each = 12, 4
	ended := make(chan error)
	for i := range orders * each {
		order := fmt.Sprint("o-", i%orders)
		go func() {
			_, err := p.Capture(context.WithoutCancel(t.Context()), order, "c-1", 990)
			ended <- err
		}()
		go func() {
			_, err := p.Void(context.WithoutCancel(t.Context()), order)
			ended <- err
		}()
	}
	for range 2 * orders * each {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	sums := s.standing(t).Ledger
	if sums[KindVoid].Rows != orders || sums[KindCapture].Cents != sums[KindRefund].Cents {
		t.Errorf("all is voided, ledger %+v", sums)
	}
	if wrong := wrongs(s.rows(t)); len(wrong) > 0 {
		t.Error(wrong)
	}
}
