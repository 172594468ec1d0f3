package outside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const capture7 = `{"order_id":"o-7","customer_id":"c-1","amount_cents":990}`

func TestTheSameKeyGetsTheSameAnswerAndHasOneEffect(t *testing.T) {
	for _, c := range []struct{ system, path, body, other, row string }{
		{ProviderSystem, "/captures", capture7, `{"order_id":"o-7","customer_id":"c-1","amount_cents":991}`, "capture o-7 c-1 990 k"},
		{CouponSystem, "/coupons", `{"order_id":"o-7","customer_id":"c-1","value_cents":500}`, `{"order_id":"o-8","customer_id":"c-1","value_cents":500}`, "coupon o-7 c-1 500 k"},
		{CarrierSystem, "/shipments", `{"order_id":"o-7","lines":[{"sku":"s","quantity":2}]}`, `{"order_id":"o-7","lines":[{"sku":"s","quantity":3}]}`, "shipment o-7 - 0 k"},
	} {
		t.Run(c.system, func(t *testing.T) {
			s := start(t, Config{System: c.system})
			status, first := s.post(t, c.path, "k", c.body)
			if status != http.StatusCreated || field(t, first, "order_id") != "o-7" {
				t.Fatalf("%d %s", status, first)
			}
			spaced := strings.ReplaceAll(c.body, ",", " ,\n ")
			if status, again := s.post(t, c.path, "k", spaced); status != http.StatusCreated || again != first {
				t.Errorf("again: %d %s, first %s", status, again, first)
			}
			if status, body := s.post(t, c.path, "k", c.other); status != http.StatusUnprocessableEntity {
				t.Errorf("another body under the key: %d %s", status, body)
			}
			if rows := s.rows(t); !slices.Equal(rows, []string{c.row}) {
				t.Errorf("ledger %q", rows)
			}
		})
	}
}

func TestAKeyOfOneOperationIsNoneOfAnother(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	s.post(t, "/voids", "k", `{"order_id":"o-7"}`)
	if status, body := s.post(t, "/captures", "k", capture7); status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", status, body)
	}
}

func TestAnEffectThatIsDoubledUnderAnotherKeyIsSeen(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	s.post(t, "/captures", "capture:o-7", capture7)
	s.post(t, "/captures", "once-more", capture7)
	if sum := s.standing(t).Ledger[KindCapture]; sum != (Sum{Rows: 2, Cents: 1980}) {
		t.Errorf("captures %+v", sum)
	}
}

func TestAVoidGivesBackWhatWasTakenOnceAndBarsTheOrder(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	s.post(t, "/captures", "k1", capture7)
	s.post(t, "/captures", "k2", capture7)
	if status, body := s.post(t, "/voids", "v1", `{"order_id":"o-7"}`); status != http.StatusOK || field(t, body, "returned_cents") != 1980.0 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := s.post(t, "/voids", "v1", `{"order_id":"o-7"}`); status != http.StatusOK || field(t, body, "returned_cents") != 1980.0 {
		t.Errorf("the same void again: %d %s", status, body)
	}
	if status, body := s.post(t, "/voids", "v2", `{"order_id":"o-7"}`); status != http.StatusOK || field(t, body, "returned_cents") != 0.0 {
		t.Errorf("a second void: %d %s", status, body)
	}
	if status, body := s.post(t, "/captures", "k3", capture7); status != http.StatusConflict || field(t, body, "reason") == "" {
		t.Errorf("a capture after the void: %d %s", status, body)
	}
	sums := s.standing(t).Ledger
	if sums[KindRefund] != (Sum{1, 1980}) || sums[KindVoid].Rows != 2 || sums[KindCapture].Rows != 2 {
		t.Errorf("ledger %+v", sums)
	}
}

func TestWhatBarsAnOrderMayComeFirst(t *testing.T) {
	for _, c := range []struct{ system, bar, effect, body, row string }{
		{ProviderSystem, "/voids", "/captures", capture7, "void o-7 - 0 bar"},
		{CouponSystem, "/revocations", "/coupons", `{"order_id":"o-7","customer_id":"c-1","value_cents":500}`, "revocation o-7 - 0 bar"},
		{CarrierSystem, "/cancellations", "/shipments", `{"order_id":"o-7","lines":[{"sku":"s","quantity":2}]}`, "cancellation o-7 - 0 bar"},
	} {
		t.Run(c.system, func(t *testing.T) {
			s := start(t, Config{System: c.system})
			if status, body := s.post(t, c.bar, "bar", `{"order_id":"o-7"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			for range 2 {
				if status, body := s.post(t, c.effect, "k", c.body); status != http.StatusConflict {
					t.Errorf("%d %s", status, body)
				}
			}
			if rows := s.rows(t); !slices.Equal(rows, []string{c.row}) {
				t.Errorf("ledger %q", rows)
			}
		})
	}
}

func TestAnEffectThatWasUndoneIsNotSaidToBeThere(t *testing.T) {
	for _, c := range []struct{ system, bar, effect, body string }{
		{ProviderSystem, "/voids", "/captures", capture7},
		{CouponSystem, "/revocations", "/coupons", `{"order_id":"o-7","customer_id":"c-1","value_cents":500}`},
		{CarrierSystem, "/cancellations", "/shipments", `{"order_id":"o-7","lines":[{"sku":"s","quantity":2}]}`},
	} {
		t.Run(c.system, func(t *testing.T) {
			s := start(t, Config{System: c.system})
			if status, body := s.post(t, c.effect, "k", c.body); status != http.StatusCreated {
				t.Fatalf("%d %s", status, body)
			}
			_, first := s.post(t, c.bar, "bar", `{"order_id":"o-7"}`)
			rows := s.rows(t)
			if status, body := s.post(t, c.effect, "k", c.body); status != http.StatusConflict {
				t.Errorf("the effect again: %d %s", status, body)
			}
			if status, again := s.post(t, c.bar, "bar", `{"order_id":"o-7"}`); status != http.StatusOK || again != first {
				t.Errorf("what undid it again: %d %s; first %s", status, again, first)
			}
			if after := s.rows(t); !slices.Equal(after, rows) {
				t.Errorf("ledger %q; it was %q", after, rows)
			}
		})
	}
}

func TestTheProviderDeclinesSomeCustomersForEver(t *testing.T) {
	if declined("c-1", 0) != "" || declined("declined-9", 0) == "" || declined("c-1", 100) == "" {
		t.Error("the rule is wrong at its ends")
	}
	n := 0
	for i := range 10_000 {
		if declined(fmt.Sprint("c-", i), 10) != "" {
			n++
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 10,000 customers are declined; 10 %% were asked for", n)
	}
	s := start(t, Config{System: ProviderSystem})
	ask := `{"order_id":"o-7","customer_id":"declined-1","amount_cents":990}`
	for range 2 {
		if status, body := s.post(t, "/captures", "k", ask); status != http.StatusPaymentRequired || field(t, body, "reason") != "the card was declined" {
			t.Errorf("%d %s", status, body)
		}
	}
	if rows := s.rows(t); !slices.Equal(rows, []string{"decline o-7 declined-1 990 k"}) {
		t.Errorf("ledger %q", rows)
	}
}

func TestWhatCantBeTakenIsRefusedAndLeavesNothing(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	for name, c := range map[string]struct {
		key, body string
		status    int
	}{
		"no key":         {"", capture7, http.StatusBadRequest},
		"long key":       {strings.Repeat("k", maxName+1), capture7, http.StatusBadRequest},
		"no JSON":        {"k", `{"order_id":`, http.StatusBadRequest},
		"two values":     {"k", capture7 + capture7, http.StatusBadRequest},
		"unknown field":  {"k", `{"order_id":"o","customer_id":"c","amount_cents":1,"amount":1}`, http.StatusBadRequest},
		"fraction":       {"k", `{"order_id":"o","customer_id":"c","amount_cents":1.5}`, http.StatusBadRequest},
		"zero":           {"k", `{"order_id":"o","customer_id":"c","amount_cents":0}`, http.StatusUnprocessableEntity},
		"negative":       {"k", `{"order_id":"o","customer_id":"c","amount_cents":-1}`, http.StatusUnprocessableEntity},
		"huge":           {"k", `{"order_id":"o","customer_id":"c","amount_cents":999999999999999}`, http.StatusUnprocessableEntity},
		"no order":       {"k", `{"customer_id":"c","amount_cents":1}`, http.StatusUnprocessableEntity},
		"blank in order": {"k", `{"order_id":"o 1","customer_id":"c","amount_cents":1}`, http.StatusUnprocessableEntity},
		"too large":      {"k", `{"order_id":"` + strings.Repeat("o", maxBody) + `"}`, http.StatusRequestEntityTooLarge},
		"empty":          {"k", ``, http.StatusBadRequest},
		"null":           {"k", `null`, http.StatusUnprocessableEntity},
	} {
		if status, body := s.post(t, "/captures", c.key, c.body); status != c.status {
			t.Errorf("%s: %d %s; want %d", name, status, body, c.status)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/captures", strings.NewReader(capture7))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	if status, body := do(t, r); status != http.StatusUnsupportedMediaType {
		t.Errorf("no content type: %d %s", status, body)
	}
	if rows := s.rows(t); len(rows) > 0 {
		t.Errorf("ledger %q", rows)
	}
}

func TestAShipmentNeedsLines(t *testing.T) {
	s := start(t, Config{System: CarrierSystem})
	for _, lines := range []string{`[]`, `[{"sku":"","quantity":1}]`, `[{"sku":"s","quantity":0}]`} {
		if status, body := s.post(t, "/shipments", "k", `{"order_id":"o-7","lines":`+lines+`}`); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", lines, status, body)
		}
	}
}

func TestASystemGoesOnWithItsLedgerAndSaysWhereItServes(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	_, first := s.post(t, "/captures", "k", capture7)
	s.stop()
	if _, err := Address(s.dir, ProviderSystem); !errors.Is(err, ErrNotServing) {
		t.Errorf("the address of one that has ended: %v", err)
	}
	if _, err := Inspect(t.Context(), s.dir, ProviderSystem); !errors.Is(err, ErrNotServing) {
		t.Errorf("inspect one that has ended: %v", err)
	}
	// As a killed one leaves it.
	if err := os.WriteFile(AddressPath(s.dir, ProviderSystem), []byte("127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(t.Context(), s.dir, ProviderSystem); !errors.Is(err, ErrNotServing) {
		t.Errorf("inspect one that was killed: %v", err)
	}
	again := start(t, Config{System: ProviderSystem, Dir: s.dir})
	if status, body := again.post(t, "/captures", "k", capture7); status != http.StatusCreated || body != first {
		t.Errorf("%d %s, before %s", status, body, first)
	}
}

func TestWhatCantRunSaysWhy(t *testing.T) {
	s := start(t, Config{System: CarrierSystem})
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{System: "bank", Dir: t.TempDir()}, "provider, coupons, carrier"},
		{Config{System: CarrierSystem}, "no directory"},
		{Config{System: ProviderSystem, Dir: t.TempDir(), DeclinePercent: 101}, "0 to 100"},
		{Config{System: CarrierSystem, Dir: t.TempDir(), Listen: strings.TrimPrefix(s.url, "http://")}, "address already in use"},
	} {
		if err := Run(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %s", c.cfg, err, c.says)
		}
	}
	// The address that a killed one left may be a stranger's by now.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(AddressPath(dir, CarrierSystem)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := announce(dir, CarrierSystem, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Config{System: CarrierSystem, Dir: dir, Listen: strings.TrimPrefix(s.url, "http://")}); err == nil {
		t.Error("it ran")
	}
	if addr, err := Address(dir, CarrierSystem); !errors.Is(err, ErrNotServing) {
		t.Errorf("left behind: %q, %v", addr, err)
	}
}

func TestAServerThatEndsAnswersWhoHangs(t *testing.T) {
	s := start(t, Config{System: CouponSystem})
	s.tell(t, Misbehaviour{Mode: ModeHang})
	ended := make(chan int, 1)
	go func() {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/revocations", strings.NewReader(`{"order_id":"o-7"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			ended <- 0
			return
		}
		_ = response.Body.Close()
		ended <- response.StatusCode
	}()
	for deadline := time.Now().Add(10 * time.Second); s.standing(t).Misbehaved[ModeHang] == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody hangs")
		}
	}
	s.stop()
	if status := <-ended; status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
}
