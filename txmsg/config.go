package txmsg

import (
	"log/slog"
	"time"

	"github.com/settlemq/settle"
)

// Config holds what people change about a sender. The zero value works.
type Config struct {
	// Source names the service, and is sent as producer app. Defaults to none.
	Source string
	// Owner names this process in the records of checks. Defaults to a fresh id.
	Owner string
	// HalfTimeout is how long the broker may take for a half message. Defaults to
	// 5 s.
	HalfTimeout time.Duration
	// LocalTimeout ends the context of a local transaction. One that takes longer
	// than the broker waits before it checks may deliver twice. Defaults to 30 s.
	LocalTimeout time.Duration
	// EndTimeout is how long the broker may take to commit or drop a message,
	// after which the check-back or the sweep does so. Defaults to 3 s.
	EndTimeout time.Duration
	// CheckTimeout is how long the database may take to answer one check.
	// Defaults to 3 s.
	CheckTimeout time.Duration
	// ChecksAtOnce bounds the checks that the database is asked at the same time.
	// Defaults to 4.
	ChecksAtOnce int
	// ChecksPerSecond bounds how many it is asked in a second; others wait, or
	// are left to the broker to ask again. Defaults to 200.
	ChecksPerSecond int
	// SweepAfter is how old an unconfirmed record is when it is swept up.
	// Defaults to 30 s.
	SweepAfter time.Duration
	// SweepEvery is the pause between two looks for such records. Defaults to 5 s.
	SweepEvery time.Duration
	// Retry says when a record that could not be delivered is tried again, and
	// when it becomes a dead letter. A broker that does not answer, or takes
	// nothing for a topic, costs no try. Defaults to settle.Backoff{}: 10 tries within
	// about a quarter of an hour.
	Retry settle.RetryPolicy
	// KeepFor is how long records are kept after they have ended. It must exceed
	// the time for which the broker may still ask. Defaults to 7 days.
	KeepFor time.Duration
	// Crash is called at the named points txmsg.after_half, txmsg.before_commit,
	// txmsg.after_commit, txmsg.after_end and txmsg.before_answer, where a test
	// ends the process. Defaults to nil: nothing.
	Crash func(point string)
	// Logger gets what a person should know. Defaults to slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		is   *time.Duration
		none time.Duration
	}{
		{&c.HalfTimeout, 5 * time.Second}, {&c.LocalTimeout, 30 * time.Second}, {&c.EndTimeout, 3 * time.Second},
		{&c.CheckTimeout, 3 * time.Second}, {&c.SweepAfter, 30 * time.Second}, {&c.SweepEvery, 5 * time.Second}, {&c.KeepFor, 7 * 24 * time.Hour},
	} {
		if *d.is <= 0 {
			*d.is = d.none
		}
	}
	if c.Owner == "" {
		c.Owner = settle.NewID()
	}
	if c.ChecksAtOnce <= 0 {
		c.ChecksAtOnce = 4
	}
	if c.ChecksPerSecond <= 0 {
		c.ChecksPerSecond = 200
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
