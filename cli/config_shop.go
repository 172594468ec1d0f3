package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/internal/configfile"
)

// ShopConfig holds the shop's business rules.
type ShopConfig struct {
	PaymentWindow time.Duration `yaml:"payment_window" doc:"how long a customer may take to pay; then the order is cancelled" default:"15m0s"`
	RefuseAbove   string        `yaml:"refuse_above" doc:"amount above which an order is refused at once" default:"10000.00"`
	Blocked       []string      `yaml:"blocked" doc:"customers whose orders are refused at once" default:"[]"`
	HoldAbove     string        `yaml:"hold_above" doc:"amount above which an order is held until it was reviewed" default:"500.00"`
	ReviewAfter   time.Duration `yaml:"review_after" doc:"how long a held order waits for its review" default:"1m0s"`
	ReleaseUpTo   string        `yaml:"release_up_to" doc:"amount up to which the review lets an order go on" default:"1000.00"`
	CouponFrom    string        `yaml:"coupon_from" doc:"amount from which a paid order earns a coupon" default:"20.00"`
}

// OutsideConfig holds what people change about the outside systems.
type OutsideConfig struct {
	Timeout        time.Duration        `yaml:"timeout" doc:"how long a call may take" default:"2s"`
	Breaker        OutsideBreakerConfig `yaml:"breaker" doc:"when a system is not called any more"`
	DeclinePercent int                  `yaml:"decline_percent" doc:"share of customers whose payments the provider declines, 0 to 100" default:"0"`
}

// OutsideBreakerConfig is the breaker of each outside system.
type OutsideBreakerConfig struct {
	Failures int           `yaml:"failures" doc:"calls that must fail in a row" default:"5"`
	Wait     time.Duration `yaml:"wait" doc:"how long nothing is let through then; one call tries after it" default:"1s"`
}

// BreakerConfig is the consumer groups' breaker of each event type.
type BreakerConfig struct {
	Failures     int           `yaml:"failures" doc:"time-outs and answers that something is away, in a row, that pause an event type" default:"5"`
	DistinctKeys int           `yaml:"distinct_keys" doc:"first attempts of different keys that must fail in a row to pause it; -1 is never" default:"50"`
	Wait         time.Duration `yaml:"wait" doc:"first pause; it doubles" default:"200ms"`
	MaxWait      time.Duration `yaml:"max_wait" doc:"longest pause" default:"30s"`
}

func (c ShopConfig) wrong() *configfile.Wrong {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"payment_window", c.PaymentWindow}, {"review_after", c.ReviewAfter}} {
		if d.value < 0 {
			return &configfile.Wrong{Key: d.key, Got: d.value, Want: "positive"}
		}
	}
	for _, a := range c.amounts(&shop.Rules{}) {
		if n, err := shop.ParseCents(a.text); a.text != "" && (err != nil || n == 0) {
			return &configfile.Wrong{Key: a.key, Got: a.text, Want: "an amount above 0, such as 500.00"}
		}
	}
	if slices.Contains(c.Blocked, "") {
		return &configfile.Wrong{Key: "blocked", Got: c.Blocked, Want: "customers' ids"}
	}
	return nil
}

// amount is a key that holds an amount, and the rule that it sets.
type amount struct {
	key, text string
	rule      *shop.Cents
}

func (c ShopConfig) amounts(r *shop.Rules) []amount {
	return []amount{
		{"refuse_above", c.RefuseAbove, &r.RefuseAbove},
		{"hold_above", c.HoldAbove, &r.HoldAbove},
		{"release_up_to", c.ReleaseUpTo, &r.ReleaseUpTo},
		{"coupon_from", c.CouponFrom, &r.CouponFrom},
	}
}

func (c OutsideConfig) wrong() *configfile.Wrong {
	switch {
	case c.Timeout < 0:
		return &configfile.Wrong{Key: "timeout", Got: c.Timeout, Want: "positive"}
	case c.Breaker.Failures < 0:
		return &configfile.Wrong{Key: "breaker.failures", Got: c.Breaker.Failures, Want: "1 or more"}
	case c.Breaker.Wait < 0:
		return &configfile.Wrong{Key: "breaker.wait", Got: c.Breaker.Wait, Want: "positive"}
	case c.DeclinePercent < 0 || c.DeclinePercent > 100:
		return &configfile.Wrong{Key: "decline_percent", Got: c.DeclinePercent, Want: "0 to 100"}
	}
	return nil
}

func (c BreakerConfig) wrong() *configfile.Wrong {
	switch {
	case c.Failures < 0:
		return &configfile.Wrong{Key: "failures", Got: c.Failures, Want: "1 or more"}
	case c.DistinctKeys < -1:
		return &configfile.Wrong{Key: "distinct_keys", Got: c.DistinctKeys, Want: "1 or more, or -1"}
	case c.Wait < 0:
		return &configfile.Wrong{Key: "wait", Got: c.Wait, Want: "positive"}
	case c.MaxWait < 0:
		return &configfile.Wrong{Key: "max_wait", Got: c.MaxWait, Want: "positive"}
	case c.MaxWait > 0 && c.MaxWait < c.Wait:
		return &configfile.Wrong{Key: "max_wait", Got: c.MaxWait, Want: fmt.Sprintf("wait (%s) or more", c.Wait)}
	}
	return nil
}

// rules are those of a file that was checked.
func (c ShopConfig) rules() shop.Rules {
	r := shop.Rules{PaymentWindow: c.PaymentWindow, ReviewAfter: c.ReviewAfter, Blocked: c.Blocked}
	for _, a := range c.amounts(&r) {
		*a.rule, _ = shop.ParseCents(a.text) // empty: the default
	}
	return r
}

func (c OutsideConfig) config(addresses map[string]string) shop.OutsideConfig {
	return shop.OutsideConfig{
		Addresses: addresses, Timeout: c.Timeout, DeclinePercent: c.DeclinePercent,
		BreakerFailures: c.Breaker.Failures, BreakerWait: c.Breaker.Wait,
	}
}

func (c BreakerConfig) breaker() consumer.Breaker {
	return consumer.Breaker{Failures: c.Failures, DistinctKeys: c.DistinctKeys, Wait: c.Wait, MaxWait: c.MaxWait}
}
