package bridge

import (
	"log/slog"
	"time"

	"github.com/settlemq/settle"
)

// Config holds what people change about a bridge. The zero value works.
type Config struct {
	// Owner names this process to others that bridge the same group. Defaults to
	// a fresh id.
	Owner string
	// LeaseTTL is how long a bridge leads without renewing; another takes over
	// after it. Defaults to 15 s.
	LeaseTTL time.Duration
	// LookEvery is the pause between two looks for replays that people have
	// ordered. Defaults to 1 s.
	LookEvery time.Duration
	// ReturnTimeout is how long the broker may take for one letter. Defaults to
	// 15 s.
	ReturnTimeout time.Duration
	// Retry says when a letter that the broker has not taken is sent again, and
	// when it is given up: it is open again then. Defaults to settle.Backoff{}:
	// 10 tries within about a quarter of an hour.
	Retry settle.RetryPolicy
	// Crash is called at the named points bridge.before_ack, bridge.after_return
	// and bridge.after_mark, where a test ends the process. Defaults to nil:
	// nothing.
	Crash func(point string)
	// Logger gets what a person should know. Defaults to slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Owner == "" {
		c.Owner = settle.NewID()
	}
	if c.LeaseTTL <= 0 {
		c.LeaseTTL = 15 * time.Second
	}
	if c.LookEvery <= 0 {
		c.LookEvery = time.Second
	}
	if c.ReturnTimeout <= 0 {
		c.ReturnTimeout = 15 * time.Second
	}
	if c.Retry == nil {
		c.Retry = settle.Backoff{}
	}
	if c.Crash == nil {
		c.Crash = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
