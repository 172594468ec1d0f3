package direct

import (
	"log/slog"
	"time"
)

// Config holds what people change about a Sender. The zero value works.
type Config struct {
	// Source names the service, and is sent as producer app. Defaults to none.
	Source string
	// Timeout is how long the broker may take for an event, after which it is
	// stored. Defaults to 2 s.
	Timeout time.Duration
	// StoreTimeout is how long the database may take to store one. It runs also
	// when the caller's context has ended. Defaults to 10 s.
	StoreTimeout time.Duration
	// MaxInFlight bounds the events that are with the broker at a time. One for
	// which there is no room within Timeout is stored. Defaults to 1,000.
	MaxInFlight int
	// Failures is after how many events in a row that the broker did not answer
	// for, or refused all of a topic, events are stored without asking it.
	// Defaults to 5.
	Failures int
	// Pause is how long that lasts before one event tries the broker again.
	// Defaults to 5 s.
	Pause time.Duration
	// Logger gets what a person should know. Defaults to slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		is   *time.Duration
		none time.Duration
	}{{&c.Timeout, 2 * time.Second}, {&c.StoreTimeout, 10 * time.Second}, {&c.Pause, 5 * time.Second}} {
		if *d.is <= 0 {
			*d.is = d.none
		}
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 1000
	}
	if c.Failures <= 0 {
		c.Failures = 5
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
