package outside

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTwoServersOfOneLedgerHaveOneEffectForAKey(t *testing.T) {
	first := start(t, Config{System: ProviderSystem})
	second := start(t, Config{System: ProviderSystem, Dir: first.dir})
	const orders = 20
	type reply struct {
		order, body string
		status      int
	}
	replies := make(chan reply)
	for i := range orders {
		for _, s := range []*running{first, second} {
			go func() {
				order := fmt.Sprint("o-", i)
				status, body := s.post(t, "/captures", "capture:"+order, `{"order_id":"`+order+`","customer_id":"c-1","amount_cents":990}`)
				replies <- reply{order, body, status}
			}()
		}
	}
	told := map[string]string{}
	for range 2 * orders {
		r := <-replies
		if before, ok := told[r.order]; r.status != http.StatusCreated || (ok && before != r.body) {
			t.Errorf("%s: %d %s; before %s", r.order, r.status, r.body, before)
		}
		told[r.order] = r.body
	}
	if rows := first.rows(t); len(rows) != orders {
		t.Errorf("%d rows for %d orders", len(rows), orders)
	}
	// The first one ends and leaves the address that is not its own.
	first.stop()
	if addr, err := Address(second.dir, ProviderSystem); err != nil || "http://"+addr != second.url {
		t.Errorf("address %s, %v; served is %s", addr, err, second.url)
	}
}

func TestTheFactsNameEveryRowOfTheLedger(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	s.post(t, "/captures", "k", capture7)
	s.post(t, "/voids", "v", `{"order_id":"o-7"}`)
	db, err := sql.Open("sqlite", "file:"+LedgerPath(s.dir, s.system)+"?_pragma=query_only(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if !strings.Contains(Facts(), "-- name: outside_ledger\n") {
		t.Errorf("the query has no name: %s", Facts())
	}
	rows, err := db.QueryContext(t.Context(), Facts(), sql.Named("service", "provider"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if want := []string{"system", "idempotency_key", "kind", "order_id", "customer_id", "amount_cents", "created_at"}; err != nil || !slices.Equal(cols, want) {
		t.Errorf("columns %v, %v; want %v", cols, err, want)
	}
	var kinds []string
	for rows.Next() {
		var system, key, kind, order, customer string
		var cents, at int64
		if err := rows.Scan(&system, &key, &kind, &order, &customer, &cents, &at); err != nil {
			t.Fatal(err)
		}
		if age := time.Since(time.UnixMicro(at)); system != "provider" || order != "o-7" || customer != "c-1" || age < 0 || age > time.Minute {
			t.Errorf("row %s %s %s of %s, %s old", system, key, order, customer, age)
		}
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if err := rows.Err(); err != nil || !slices.Equal(kinds, []string{KindCapture, KindRefund, KindVoid}) {
		t.Errorf("kinds %v, %v", kinds, err)
	}
}

func TestALedgerThatIsNoneIsLeftAsItIsAndSaid(t *testing.T) {
	s := start(t, Config{System: CarrierSystem})
	s.stop()
	path := LedgerPath(s.dir, CarrierSystem)
	text := []byte("this is no database, but it was somebody's work, long enough to look like a header of 100 bytes......")
	for _, f := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Config{System: CarrierSystem, Dir: s.dir}); err == nil || !strings.Contains(err.Error(), "run carrier: open ledger") {
		t.Errorf("got %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		t.Errorf("it is %q now, %v", now, err)
	}
}

func TestMoreRequestsThanMayBeInHandAreTurnedAway(t *testing.T) {
	s := start(t, Config{System: CouponSystem})
	s.tell(t, Misbehaviour{Mode: ModeHang})
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	for i := range maxInHand {
		go func() {
			defer func() { left <- struct{}{} }()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/revocations", strings.NewReader(`{"order_id":"o-7"}`))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
			if response, err := http.DefaultClient.Do(r); err == nil {
				_ = response.Body.Close()
			}
		}()
	}
	for deadline := time.Now().Add(20 * time.Second); s.standing(t).Misbehaved[ModeHang] < maxInHand; {
		if time.Now().After(deadline) {
			t.Fatal("not all hang")
		}
	}
	if status, body := s.post(t, "/revocations", "one-more", `{"order_id":"o-7"}`); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
	leave()
	for range maxInHand {
		<-left
	}
	s.tell(t, Misbehaviour{Mode: ModeOK})
	c := NewCoupons(patient(s))
	defer c.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := c.Revoke(t.Context(), "o-7")
		if err == nil {
			break
		}
		if classOf(err) != unavailable || time.Now().After(deadline) {
			t.Fatalf("after they have left: %v", err)
		}
	}
}

func BenchmarkCapture(b *testing.B) {
	s := start(b, Config{System: ProviderSystem})
	p := NewProvider(ClientConfig{Address: s.address})
	defer p.Close()
	for i := range b.N {
		if _, err := p.Capture(b.Context(), fmt.Sprint("o-", i), "c-1", 990); err != nil {
			b.Fatal(err)
		}
	}
}
