package mysql

import "time"

// Config says how a database is opened. The zero value works.
type Config struct {
	// MaxConns is how many connections business transactions may have at once;
	// as many again may consume, and as many may read. Defaults to 16.
	MaxConns int
	// ConnectTimeout bounds the making of a connection. Defaults to 5 s.
	ConnectTimeout time.Duration
	// StatementTimeout and LockTimeout bound each statement of the store
	// itself, and each wait for a lock in it; the server counts both in seconds
	// and at least one. They belong below the lease time of the relay. Default
	// to 5 s and 3 s.
	StatementTimeout, LockTimeout time.Duration
	// IdleTimeout ends a connection of the store whose client says nothing for
	// so long: a process that was stopped would hold its locks for ever.
	// Defaults to 5 s.
	IdleTimeout time.Duration
	// Clock tells the time that time stamps and due times go by, and the
	// leases. Defaults to time.Now, and to the database's clock for leases.
	Clock func() time.Time
	// Crash is called at the named points consume.before_commit,
	// replay.before_commit and replay.after_commit, where a test kills the
	// process. Defaults to nil: nothing.
	Crash func(point string)
	// Service names the service whose database it is, in dead letters and
	// trails. Defaults to the database's name.
	Service string
	// Existing refuses a database that has no tables of this package yet
	// (ErrForeign), or those of an older program, and leaves it as it is.
	// Defaults to false: they are made and brought up to date.
	Existing bool
}

func (c Config) withDefaults() Config {
	if c.MaxConns <= 0 {
		c.MaxConns = 16
	}
	setDefault(&c.ConnectTimeout, 5*time.Second)
	setDefault(&c.StatementTimeout, 5*time.Second)
	setDefault(&c.LockTimeout, 3*time.Second)
	setDefault(&c.IdleTimeout, 5*time.Second)
	if c.Crash == nil {
		c.Crash = func(string) {}
	}
	return c
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}
