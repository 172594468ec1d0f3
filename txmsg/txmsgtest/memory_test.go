package txmsgtest

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

func harness(m *Memory, wrap func(txmsg.Broker) txmsg.Broker) Harness {
	connect := func(testing.TB) txmsg.Broker { return wrap(m.Connect()) }
	return Harness{
		Broker: connect(nil), Again: connect, Topic: "orders", Ask: func() { m.Ask() }, TooLarge: 1 << 12,
		Log: func(testing.TB) (all []*settle.Event) {
			for _, d := range m.Log() {
				all = append(all, d.Message.Event)
			}
			return all
		},
		Patience: 10 * time.Second, Quiet: time.Millisecond,
	}
}

func sound(b txmsg.Broker) txmsg.Broker { return b }

func TestTheBrokerInMemoryKeepsTheContract(t *testing.T) {
	Run(t, func(testing.TB) Harness { return harness(&Memory{MaxPayload: 1 << 10}, sound) })
}

// broken is a broker with one fault.
type broken struct {
	txmsg.Broker
	half   func(b txmsg.Broker, ctx context.Context, h txmsg.Half) (txmsg.Handle, error)
	end    func(b txmsg.Broker, ctx context.Context, h txmsg.Handle, v txmsg.Verdict) error
	answer func(b txmsg.Broker, ctx context.Context, c txmsg.Check, v txmsg.Verdict) error
	check  func(c *txmsg.Check)
	cold   bool
	warm   func(b txmsg.Broker, ctx context.Context) error
}

func (b *broken) Half(ctx context.Context, h txmsg.Half) (txmsg.Handle, error) {
	if b.half != nil {
		return b.half(b.Broker, ctx, h)
	}
	return b.Broker.Half(ctx, h)
}

func (b *broken) End(ctx context.Context, h txmsg.Handle, v txmsg.Verdict) error {
	if b.end != nil {
		return b.end(b.Broker, ctx, h, v)
	}
	return b.Broker.End(ctx, h, v)
}

func (b *broken) Answer(ctx context.Context, c txmsg.Check, v txmsg.Verdict) error {
	if b.answer != nil {
		return b.answer(b.Broker, ctx, c, v)
	}
	return b.Broker.Answer(ctx, c, v)
}

func (b *broken) Checks(ctx context.Context, sink func(txmsg.Check)) error {
	return b.Broker.Checks(ctx, func(c txmsg.Check) {
		if b.check != nil {
			b.check(&c)
		}
		sink(c)
	})
}

func (b *broken) WarmUp(ctx context.Context) error {
	if b.warm != nil {
		return b.warm(b.Broker, ctx)
	}
	if b.cold {
		return nil
	}
	return b.Broker.WarmUp(ctx)
}

// brokenBrokers breaks each rule.
func brokenBrokers() map[string]broken {
	shownAtOnce := func(b txmsg.Broker, ctx context.Context, h txmsg.Half) (txmsg.Handle, error) {
		handle, err := b.Half(ctx, h)
		if err == nil {
			err = b.End(ctx, handle, txmsg.Commit)
		}
		return handle, err
	}
	swallowed := func(txmsg.Broker, context.Context, txmsg.Handle, txmsg.Verdict) error { return nil }
	return map[string]broken{
		"a half message is shown to nobody until it is committed, and then whole": {half: shownAtOnce},
		"a half message that is rolled back is never shown, and not asked for":    {end: swallowed},
		"a half message that has not ended is asked for, with what it carries":    {check: func(c *txmsg.Check) { c.EventID = "" }},
		"an answer of roll-back ends it": {answer: func(b txmsg.Broker, ctx context.Context, c txmsg.Check, _ txmsg.Verdict) error {
			return b.Answer(ctx, c, txmsg.Commit)
		}},
		"an answer that does not know lets the broker ask again": {answer: func(b txmsg.Broker, ctx context.Context, c txmsg.Check, _ txmsg.Verdict) error {
			return b.Answer(ctx, c, txmsg.Commit)
		}},
		"another process of the group is asked once it has warmed up, though it has sent nothing": {cold: true},
		"an end is told by a handle alone, by any process":                                        {end: swallowed},
		"a commit that is told again is no error": {end: func(b txmsg.Broker, ctx context.Context, h txmsg.Handle, v txmsg.Verdict) error {
			err := b.End(ctx, h, v)
			if m := b.(*Member).m; err == nil && len(m.Log()) > 1 {
				return errLost
			}
			return err
		}},
		"a message that can't be encoded, or is too large, is the event's fault": {half: func(b txmsg.Broker, ctx context.Context, h txmsg.Half) (txmsg.Handle, error) {
			handle, err := b.Half(ctx, h)
			if err != nil {
				err = errLost
			}
			return handle, err
		}},
		"a call whose time has ended does not wait": {half: func(b txmsg.Broker, ctx context.Context, h txmsg.Half) (txmsg.Handle, error) {
			return b.Half(context.WithoutCancel(ctx), h)
		}},
		"warming up shows nobody anything": {warm: func(b txmsg.Broker, ctx context.Context) error {
			e := &settle.Event{ID: "warm", Type: "x", AggregateID: "k", ContentType: "text/plain"}
			handle, err := b.Half(ctx, txmsg.Half{ID: "warm", Message: settle.Message{ID: "warm", Event: e}})
			if err == nil {
				err = b.End(ctx, handle, txmsg.Commit)
			}
			return err
		}},
	}
}

func TestEveryRuleFailsABrokenBroker(t *testing.T) {
	faults := brokenBrokers()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fault, is := faults[c.name]
			if !is {
				t.Fatal("nothing breaks it")
			}
			h := harness(&Memory{MaxPayload: 1 << 10}, func(b txmsg.Broker) txmsg.Broker {
				one := fault
				one.Broker = b
				return &one
			})
			h.Patience = 200 * time.Millisecond
			r := &recorder{TB: t}
			if r.run(c, h); !r.failed {
				t.Error("a broken broker passes")
			}
		})
	}
	for name := range faults {
		found := false
		for _, c := range cases() {
			found = found || strings.EqualFold(c.name, name)
		}
		if !found {
			t.Errorf("there is no rule %q", name)
		}
	}
}

// recorder takes a failure as a result.
type recorder struct {
	testing.TB
	failed bool
	end    []func()
}

func (r *recorder) Helper()               {}
func (r *recorder) Cleanup(f func())      { r.end = append(r.end, f) }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }

func (r *recorder) run(c testCase, h Harness) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range r.end {
				f()
			}
		}()
		c.run(newBench(r, h))
	}()
	<-done
}
