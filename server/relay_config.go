package server

import (
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/configfile"
	"github.com/settlemq/settle/relay"
)

// Relay leaves what the file does not say to relay.Config's defaults.
func (c RelayConfig) Relay() relay.Config {
	return relay.Config{
		LeaseTTL: c.LeaseTTL, BatchRows: c.BatchRows, BatchBytes: c.BatchBytes, MaxIdle: c.MaxIdle, PublishTimeout: c.PublishTimeout,
		RateLimit: c.RateLimit, KeepFor: c.KeepFor, RetainEvery: c.RetainEvery, SweepEvery: c.SweepEvery,
		HoleAge: c.HoleAge, HoleGrace: c.HoleGrace, Pass: c.Pass, Retry: c.Retry.Policy(),
	}
}

// Policy leaves what the file does not say to settle.Backoff's defaults.
func (c RetryConfig) Policy() settle.RetryPolicy {
	return settle.Backoff{Base: c.Base, Max: c.Max, Jitter: c.Jitter, Attempts: c.Attempts}
}

// Wrong returns the first value that can't be, or nil.
func (c RelayConfig) Wrong() *configfile.Wrong {
	switch {
	case c.BatchRows < 0 || c.BatchRows > 1000:
		return &configfile.Wrong{Key: "batch_rows", Got: c.BatchRows, Want: "1 to 1000"}
	case c.BatchBytes < 0:
		return &configfile.Wrong{Key: "batch_bytes", Got: c.BatchBytes, Want: "positive"}
	case c.KeepFor < 0:
		return &configfile.Wrong{Key: "keep_for", Got: c.KeepFor, Want: "0 or more"}
	case c.LeaseTTL < 0:
		return &configfile.Wrong{Key: "lease_ttl", Got: c.LeaseTTL, Want: "positive"}
	case c.MaxIdle < 0:
		return &configfile.Wrong{Key: "max_idle", Got: c.MaxIdle, Want: "positive"}
	case c.PublishTimeout < 0:
		return &configfile.Wrong{Key: "publish_timeout", Got: c.PublishTimeout, Want: "positive"}
	case c.RetainEvery < 0:
		return &configfile.Wrong{Key: "retain_every", Got: c.RetainEvery, Want: "positive"}
	case c.SweepEvery < 0:
		return &configfile.Wrong{Key: "sweep_every", Got: c.SweepEvery, Want: "positive"}
	case c.HoleAge < 0:
		return &configfile.Wrong{Key: "hole_age", Got: c.HoleAge, Want: "positive"}
	case c.HoleGrace < 0:
		return &configfile.Wrong{Key: "hole_grace", Got: c.HoleGrace, Want: "positive"}
	}
	for topic, limit := range c.RateLimit {
		if limit <= 0 {
			return &configfile.Wrong{Key: "rate_limit." + topic, Got: limit, Want: "more than 0"}
		}
	}
	return c.Retry.Wrong().Under("retry")
}

// Wrong returns the first value that can't be, or nil.
func (c RetryConfig) Wrong() *configfile.Wrong {
	switch {
	case c.Base < 0:
		return &configfile.Wrong{Key: "base", Got: c.Base, Want: "positive"}
	case c.Max < 0:
		return &configfile.Wrong{Key: "max", Got: c.Max, Want: "positive"}
	case c.Jitter < 0 || c.Jitter > 1:
		return &configfile.Wrong{Key: "jitter", Got: fmt.Sprint(c.Jitter), Want: "0 to 1"}
	case c.Attempts < 0:
		return &configfile.Wrong{Key: "attempts", Got: c.Attempts, Want: "1 or more"}
	}
	return nil
}
