package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/settlemq/settle"
)

// Config sets a consumer group up. The zero value works. Machine and Consumer
// share it; what only the Consumer reads is at the end.
type Config struct {
	// Concurrency is how many transactions may be in flight at a time. They
	// share no key and no partition. Defaults to 1.
	Concurrency int
	// BatchRows bounds the events of one transaction. Defaults to 256.
	BatchRows int
	// BatchBytes bounds the record bytes of one transaction; a larger record
	// goes alone. Defaults to 1 MiB.
	BatchBytes int
	// MaxBatchTime bounds the time that handlers spend in one transaction: a
	// slow handler shrinks the works that follow. Defaults to 10 ms.
	MaxBatchTime time.Duration

	// Retry says when a failed attempt is followed by another. Defaults to
	// settle.Backoff{}: 10 attempts, 2 s to 300 s apart.
	Retry settle.RetryPolicy
	// RetryPoll is how often the retry store is looked at although nothing is
	// known to be due, so that another process's replay is seen. Defaults to 1 s.
	RetryPoll time.Duration
	// Pass lets later events of a key go ahead of a failed one. Defaults to
	// false: the key is blocked until the failed event is settled.
	Pass bool
	// OrderedBySeq follows AggregateSeq strictly. Defaults to false.
	OrderedBySeq bool
	// GapTimeout is how long an event waits for what is before it, with
	// OrderedBySeq. Defaults to 1 min.
	GapTimeout time.Duration
	// TakeoverAfter is how old a left-over log row of another consumer must be
	// before it is taken over. Defaults to 15 min.
	TakeoverAfter time.Duration
	// EffectKey returns an event's own key of its effect, or "": a second event
	// of the type with the same key is a duplicate. It must be pure. Defaults to
	// none.
	EffectKey func(*settle.Event) string
	// DedupWindow is how long the consume log remembers; events appended before
	// that which it does not know become dead letters. Defaults to for ever.
	DedupWindow time.Duration
	// ReplayHorizon is how old an event may be when it is replayed or
	// redelivered; a DedupWindow below it is refused. Defaults to DedupWindow.
	ReplayHorizon time.Duration
	// SuspectAfter is how many owners of a partition must have died in a row
	// without progress before its next records are tried one at a time. Where the
	// broker assigns partitions, it is how many members must have died within
	// half an hour before what they had in hand is; that of the first is not
	// known with more than 1. Defaults to 2.
	SuspectAfter int

	// RateLimit bounds the events handled per second. Defaults to no limit.
	RateLimit float64
	// RateBurst is how many events may be handled at once under RateLimit.
	// Defaults to one second's worth, at least 1.
	RateBurst int
	// Breaker pauses the delivery of an event type whose handler can't work.
	// Defaults to Breaker{}.
	Breaker Breaker
	// ControlsPoll is how often pauses ordered by people are looked up.
	// Defaults to 1 s.
	ControlsPoll time.Duration
	// StoreWait is the first wait after an error of the store; it doubles up to
	// MaxStoreWait. Default to 50 ms and 5 s.
	StoreWait, MaxStoreWait time.Duration

	// Topics to read. Defaults to settle.DefaultTopic.
	Topics []string
	// HandlerTimeout is when a handler's context is cancelled. Defaults to 30 s.
	HandlerTimeout time.Duration
	// LeaseTTL is how long a partition stays this member's without renewal,
	// where ownership is leased from our store, and elsewhere how long a member
	// is silent before it is taken for dead. Defaults to 2 s.
	LeaseTTL time.Duration
	// StopTimeout bounds the wait for transactions in flight when the consumer
	// stops; then they are cancelled. Defaults to 10 s.
	StopTimeout time.Duration
	// Owner names this member. Defaults to host, process id and a random part.
	Owner string
	// Core marks a group whose lag and dead letters are urgent; it appears in
	// the log and in Stats. Defaults to false.
	Core bool
	// Crash is called at named points (consume.*) by tests that kill the
	// process there. Defaults to nil: nothing.
	Crash func(point string)
	// Logger gets one line per change of state. Defaults to slog.Default().
	Logger *slog.Logger
}

// Breaker says when the delivery of one event type pauses, and for how long.
// An open breaker holds its partition's later records too (order) and burns no
// attempts. After each wait one event probes whether the handler works again.
type Breaker struct {
	// Failures is how many failures in a row marked settle.Unavailable, or
	// timeouts, open it. Before that each one only delays the type by Wait.
	// Defaults to 5.
	Failures int
	// DistinctKeys is how many first attempts of different keys must fail in a
	// row, whatever the error, to open it: then it is us who are broken, not
	// the events. Negative means never. Defaults to 50.
	DistinctKeys int
	// Wait is the first pause; it doubles with each failed probe up to MaxWait.
	// Default to 200 ms and 30 s.
	Wait, MaxWait time.Duration
}

// HandlerRule is what the machine knows of a handler.
type HandlerRule struct {
	// External handlers have effects outside the database and run alone.
	External bool
	// Batch handlers take many events in one call.
	Batch bool
	// MaxVersion is the highest payload version it takes. Defaults to 1.
	MaxVersion int
	// Compensation is the rule of what runs in its place when a person has
	// given up on the event; its own Batch and Compensation say nothing.
	// Defaults to nil: there is none.
	Compensation *HandlerRule
}

func (c Config) withDefaults() Config {
	orInt(&c.Concurrency, 1)
	orInt(&c.BatchRows, 256)
	orInt(&c.BatchBytes, 1<<20)
	orTime(&c.MaxBatchTime, 10*time.Millisecond)
	if c.Retry == nil {
		c.Retry = settle.Backoff{}
	}
	orTime(&c.RetryPoll, time.Second)
	orTime(&c.GapTimeout, time.Minute)
	orTime(&c.TakeoverAfter, 15*time.Minute)
	orInt(&c.SuspectAfter, 2)
	if c.RateLimit > 0 {
		orInt(&c.RateBurst, max(int(c.RateLimit), 1))
	}
	orInt(&c.Breaker.Failures, 5)
	if c.Breaker.DistinctKeys == 0 {
		c.Breaker.DistinctKeys = 50
	}
	orTime(&c.Breaker.Wait, 200*time.Millisecond)
	orTime(&c.Breaker.MaxWait, 30*time.Second)
	orTime(&c.ControlsPoll, time.Second)
	orTime(&c.StoreWait, 50*time.Millisecond)
	orTime(&c.MaxStoreWait, 5*time.Second)
	if len(c.Topics) == 0 {
		c.Topics = []string{settle.DefaultTopic}
	}
	orTime(&c.HandlerTimeout, 30*time.Second)
	orTime(&c.LeaseTTL, 2*time.Second)
	orTime(&c.StopTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate names the first field that can't be.
func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Concurrency", int64(c.Concurrency)}, {"BatchRows", int64(c.BatchRows)}, {"BatchBytes", int64(c.BatchBytes)},
		{"MaxBatchTime", int64(c.MaxBatchTime)}, {"RetryPoll", int64(c.RetryPoll)}, {"SuspectAfter", int64(c.SuspectAfter)},
		{"RateBurst", int64(c.RateBurst)}, {"DedupWindow", int64(c.DedupWindow)}, {"HandlerTimeout", int64(c.HandlerTimeout)},
		{"LeaseTTL", int64(c.LeaseTTL)}, {"StopTimeout", int64(c.StopTimeout)},
	} {
		if f.value < 0 {
			return fmt.Errorf("consumer config: %s is negative", f.name)
		}
	}
	if c.RateLimit < 0 {
		return errors.New("consumer config: RateLimit is negative")
	}
	if c.DedupWindow > 0 && c.DedupWindow < c.ReplayHorizon {
		return fmt.Errorf("consumer config: DedupWindow %v is below ReplayHorizon %v: an event could be replayed after it was forgotten", c.DedupWindow, c.ReplayHorizon)
	}
	return nil
}

func orInt(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

func orTime(v *time.Duration, d time.Duration) {
	if *v == 0 {
		*v = d
	}
}
