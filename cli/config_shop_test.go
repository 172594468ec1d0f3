package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/settlemq/settle/examples/shop"
)

func TestWhatAFileSaysReachesTheShop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settle.yml")
	text := "shop: {payment_window: 2m, refuse_above: 900.00, blocked: [mallory], hold_above: 250.5, review_after: 3s, release_up_to: 800, coupon_from: 1}\n" +
		"outside: {timeout: 300ms, breaker: {failures: 3, wait: 200ms}, decline_percent: 5}\n" +
		"consumer: {breaker: {failures: 4, distinct_keys: -1, wait: 10ms, max_wait: 1s}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	rules := shop.Rules{
		PaymentWindow: 2 * time.Minute, RefuseAbove: 900_00, Blocked: []string{"mallory"}, HoldAbove: 250_50,
		ReviewAfter: 3 * time.Second, ReleaseUpTo: 800_00, CouponFrom: 1_00,
	}
	if got := c.Shop.rules(); !reflect.DeepEqual(got, rules) {
		t.Errorf("rules %+v; want %+v", got, rules)
	}
	outside := shop.OutsideConfig{Timeout: 300 * time.Millisecond, BreakerFailures: 3, BreakerWait: 200 * time.Millisecond, DeclinePercent: 5}
	if got := c.Outside.config(nil); !reflect.DeepEqual(got, outside) {
		t.Errorf("outside %+v; want %+v", got, outside)
	}
	if b := consumerConfig(c.Consumer).Breaker; b.Failures != 4 || b.DistinctKeys != -1 || b.Wait != 10*time.Millisecond || b.MaxWait != time.Second {
		t.Errorf("breaker %+v", b)
	}
}
