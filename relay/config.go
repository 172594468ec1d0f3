package relay

import (
	"log/slog"
	"time"

	"github.com/settlemq/settle"
)

// Config says how a relay works. The zero value is ready to use.
type Config struct {
	// Name of the service whose outbox this is; it travels as producer app.
	// Defaults to "".
	Name string
	// Owner names this process in the lease. Defaults to a new random id in
	// New; a Machine used without a Relay must be given one.
	Owner string
	// Lane is the number of the table's lane that this relay reads; see Lanes.
	// Defaults to 0, the only one of a table that was never divided.
	Lane int
	// Hesitate is asked how long to wait before a lease is asked for that this
	// relay does not hold. A process that leads some lanes leaves a free one to
	// others by it. Defaults to nil: not at all.
	Hesitate func() time.Duration
	// LeaseTTL is how long a leader may be silent before another takes over;
	// it renews at a third of it. Defaults to 10 s.
	LeaseTTL time.Duration
	// BatchRows and BatchBytes bound a page read and a batch published.
	// BatchRows is at most 1000. Default to 500 and 1 MiB.
	BatchRows, BatchBytes int
	// MaxIdle is the longest wait between polls of an idle outbox. Defaults to
	// 25 ms.
	MaxIdle time.Duration
	// Retry says when a refused event is tried again and when it dies.
	// Defaults to settle.Backoff{}.
	Retry settle.RetryPolicy
	// Pass lets the events behind a dead one go on. Defaults to false: the key
	// is blocked until a person decides.
	Pass bool
	// Routes name the brokers of events, in order; see Route. An event that none
	// matches goes to the default broker. When they change, events that were read
	// before keep the way that they had. Defaults to none.
	Routes []Route
	// Brokers are those that Routes name, beside the default one. What is owed to
	// one that is missing here waits until a relay has it. Defaults to none.
	Brokers map[string]settle.Publisher
	// RateLimit is events per second by topic; one of another broker than the
	// default is called topic@broker. Defaults to none.
	RateLimit map[string]float64
	// KeepFor is how long rows stay in the outbox after they were
	// acknowledged. Defaults to 0: they are never deleted.
	KeepFor time.Duration
	// DelayAhead is how far ahead NotBefore must be for the event to be put
	// aside; less counts as now. Defaults to 10 s.
	DelayAhead time.Duration
	// PublishTimeout bounds one call of Publish. Defaults to 5 s, and is cut to
	// what is left of the lease.
	PublishTimeout time.Duration
	// HoleAge is how old a missing id must be, beside the evidence that no
	// transaction owns it, before it is recorded as cold. Defaults to 2 s.
	HoleAge time.Duration
	// HoleGrace takes the place of evidence where owners can't be asked.
	// Defaults to 1 min.
	HoleGrace time.Duration
	// SweepEvery is the pause between searches for rows behind cold holes.
	// Defaults to 30 s.
	SweepEvery time.Duration
	// RetainEvery is the pause between deletions of what is done; while there
	// is more to delete they take a quarter of the store's time. Defaults to
	// 10 s.
	RetainEvery time.Duration
	// MaxHoles and MaxParkedKeys bound what is remembered of holes and parked
	// keys; at the bound reading stops. Default to 100,000 each.
	MaxHoles, MaxParkedKeys int
	// SuspectAfter is how many leaders in a row must have died before what was
	// in doubt is tried by itself: a batch at a time, and after each further
	// death half as many. Defaults to 2.
	SuspectAfter int
	// CrashAttempts is how many recorded tries alone that nobody survived make a
	// suspect a dead letter. Defaults to 3.
	CrashAttempts int

	// Crash is called at named points of the runner; tests end the process
	// there. Defaults to nil: nothing.
	Crash func(point string)
	// Logger gets what a person should know: leadership, parks, deaths, errors.
	// Defaults to slog.Default.
	Logger *slog.Logger
	// OnSent is called after each commit that records acknowledged events, by
	// the goroutine that committed; it must be quick and not keep the slice.
	// Defaults to nil: nothing.
	OnSent func([]Sent)
}

func (c Config) withDefaults() Config {
	setDefault(&c.LeaseTTL, 10*time.Second)
	setDefault(&c.BatchRows, 500)
	c.BatchRows = min(c.BatchRows, 1000)
	setDefault(&c.BatchBytes, 1<<20)
	setDefault(&c.MaxIdle, 25*time.Millisecond)
	if c.Retry == nil {
		c.Retry = settle.Backoff{}
	}
	setDefault(&c.DelayAhead, 10*time.Second)
	setDefault(&c.PublishTimeout, 5*time.Second)
	setDefault(&c.HoleAge, 2*time.Second)
	setDefault(&c.HoleGrace, time.Minute)
	setDefault(&c.SweepEvery, 30*time.Second)
	setDefault(&c.RetainEvery, 10*time.Second)
	setDefault(&c.MaxHoles, 100_000)
	setDefault(&c.MaxParkedKeys, 100_000)
	setDefault(&c.SuspectAfter, 2)
	setDefault(&c.CrashAttempts, 3)
	return c
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
