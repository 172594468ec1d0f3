package cli

import (
	"fmt"
	"time"
)

// Times of a drill are scaled down, so that takeovers and dead letters happen
// within seconds. The demo prints them; the product's defaults are longer.
const drillLease = 1500 * time.Millisecond

// elsewhereLonger is how much longer orders may need on a broker that others
// use, too, whose groups take seconds to change hands.
const elsewhereLonger = 6 * time.Second

// nodesLonger is how much longer orders need where the broker's nodes are broken:
// two of them in a row may be in an order's way.
const nodesLonger = 45 * time.Second

// mysqlLonger is how much longer each order needs on MySQL and MariaDB, where
// every commit reaches the disk twice, in the log of the tables and in that of
// the replicas.
const mysqlLonger = 40 * time.Millisecond

// paymentWindow is how long a drill's customers may take to pay: longer than
// orders need under faults, which is longer the more there are, and short
// enough to wait for those who never pay.
func paymentWindow(orders int, elsewhere, nodes, mysql bool) time.Duration {
	longer := time.Duration(0)
	if elsewhere {
		longer = elsewhereLonger
	}
	if nodes {
		longer += nodesLonger
	}
	if mysql {
		longer += time.Duration(orders) * mysqlLonger
	}
	few := min(orders, 500)
	return longer + 6*time.Second + time.Duration(few)*10*time.Millisecond + time.Duration(orders-few)*5*time.Millisecond
}

// targetTime is how long a demo under all faults ought to take on two cores: an
// aim that is printed beside what it took, not a bound. Above 20,000 orders
// there is none: ok is false.
func targetTime(orders int64) (target time.Duration, ok bool) {
	switch {
	case orders <= 2000:
		return time.Minute, true
	case orders <= 20_000:
		return 10 * time.Minute, true
	}
	return 0, false
}

// drillFile is the config of a drill's shop, and of whoever goes on with it.
func drillFile(window time.Duration) string {
	return fmt.Sprintf(`# Times and rules of a drill, far from the defaults: see settle config schema.
relay:
  lease_ttl: %[1]s
  retry: {base: 40ms, max: 400ms, attempts: 4}
consumer:
  lease_ttl: %[1]s
  retry: {base: 40ms, max: 400ms, attempts: 4}
  breaker: {wait: 50ms, max_wait: 500ms}
shop:
  payment_window: %[2]s
  hold_above: %[3]q
  release_up_to: "200.00"
  review_after: 500ms
  coupon_from: %[4]q
  blocked: [%[5]s]
outside:
  timeout: 300ms
  breaker: {failures: 10, wait: 200ms}
`, drillLease, window, holdAbove, couponFrom, blockedCustomer)
}
