package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle"
)

func TestWhatAnotherProcessHasDoneDuringAQuestionIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		b.fail = func(id string) error {
			s.in.mu.Lock()
			defer s.in.mu.Unlock()
			s.in.log[id] = settle.VerdictApplied
			return nil
		}
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Minute)
		s.stop()
		s.wantEffects()
		b.wantAsked("a1")
		if got := s.c.Stats(); got.Duplicate != 1 || got.Failed != 0 {
			t.Errorf("stats are %+v, want one duplicate", got)
		}
	})
}

func TestAfterACommitThatFailedAnotherSystemIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		failed := false
		s.in.fail = func(settle.Work) error {
			if failed {
				return nil
			}
			failed = true
			return errBoom
		}
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Minute)
		s.stop()
		s.wantEffects("a1")
		b.wantAsked("a1", "a1")
		if got := s.c.Stats(); got.Failed != 0 || got.Applied != 1 {
			t.Errorf("stats are %+v: the fault of a store is no attempt", got)
		}
	})
}

// retryingInbox begins its transactions anew by itself, as a database does
// that found them in conflict: the second time the event is done.
type retryingInbox struct{ *fakeInbox }

func (r retryingInbox) Apply(ctx context.Context, w settle.Work, handle func(context.Context, *fakeTx, int) error) ([]settle.Result, error) {
	if _, err := r.fakeInbox.Apply(ctx, w, handle); err != nil {
		return nil, err
	}
	r.mu.Lock()
	for i := range w.Items {
		r.log[logID(&w.Items[i].Record)] = settle.VerdictApplied
	}
	r.mu.Unlock()
	return r.fakeInbox.Apply(ctx, w, handle)
}

func TestWhatAStoreFindsDoneWhenItBeginsAnewIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		handlers := s.c.handlers
		s.c = New("g", s.broker, retryingInbox{s.in}, Config{Topics: []string{"topic"}})
		s.c.handlers = handlers
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Minute)
		s.stop()
		b.wantAsked()
		if got := s.c.Stats(); got.Duplicate != 1 {
			t.Errorf("stats are %+v, want one duplicate", got)
		}
	})
}

func TestAQuestionIsBoundedInTimeAndItsPanicIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		question func(context.Context) (int, error)
		class    settle.Class
	}{
		"never answers": {func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, settle.ClassHandler},
		"panics":        {func(context.Context) (int, error) { panic("nil map") }, settle.ClassPanic},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, Config{HandlerTimeout: time.Second, Retry: settle.Backoff{Base: time.Second, Attempts: 2}})
				var told []error
				s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, _ *fakeTx, _ *settle.Event) error {
					_, err := Ask(ctx, c.question)
					if !errors.Is(err, errAsk) {
						told = append(told, err)
					}
					return err
				})
				s.broker.publish(0, event("a", 1))
				s.start()
				time.Sleep(time.Minute)
				s.stop()
				it, dead, _ := s.in.row("a1")
				if !dead || it.Class != c.class || it.Attempt != 2 || len(told) != 2 {
					t.Errorf("dead %v as %s at attempt %d, want %s at 2; the handler was told %v", dead, it.Class, it.Attempt, c.class, told)
				}
			})
		})
	}
}

func TestAQuestionIsCutShortWhenTheConsumerStopsAndCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{StopTimeout: 2 * time.Second})
		asked := make(chan struct{}, 1)
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			_, err := Ask(ctx, func(ctx context.Context) (int, error) {
				asked <- struct{}{}
				<-ctx.Done()
				return 0, ctx.Err()
			})
			if err != nil {
				return err
			}
			return apply(ctx, tx, e)
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		<-asked
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the stop took %v, want StopTimeout", took)
		}
		s.wantEffects()
		if got := s.c.Stats(); got.Failed != 0 || len(s.in.rows) != 0 {
			t.Errorf("stats %+v, rows %+v: a stop is nobody's attempt", got, s.in.rows)
		}
	})
}

func TestAHandlerThatIsNotExternalAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{Retry: settle.Backoff{Base: time.Second, Attempts: 1}})
		ask := func(ctx context.Context) error {
			_, err := Ask(ctx, func(context.Context) (int, error) {
				t.Error("another system is asked in a transaction")
				return 1, nil
			})
			return err
		}
		s.c.Handle("t", func(ctx context.Context, _ *fakeTx, _ *settle.Event) error { return ask(ctx) })
		s.c.HandleBatch("many", func(ctx context.Context, _ *fakeTx, _ []*settle.Event) error { return ask(ctx) })
		many := event("b", 1)
		many.Type = "many"
		s.broker.publish(0, event("a", 1), many)
		s.start()
		time.Sleep(time.Minute)
		s.stop()
		for _, id := range []string{"a1", "b1"} {
			if it, dead, _ := s.in.row(id); !dead {
				t.Errorf("%s: %+v, want a dead letter", id, it)
			}
		}
	})
}

func TestAQuestionMayCallWhatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			got, err := Ask(ctx, func(ctx context.Context) (int, error) {
				return Ask(ctx, func(context.Context) (int, error) { return 7, nil })
			})
			if err != nil {
				return err
			}
			if got != 7 {
				t.Errorf("the answer is %d, want 7", got)
			}
			return apply(ctx, tx, e)
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Second)
		s.wantEffects("a1")
		s.stop()
	})
}

func TestACompensationAsksToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		s.c.CompensateWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			if _, err := Ask(ctx, func(ctx context.Context) (string, error) { return b.ask(ctx, e) }); err != nil {
				return err
			}
			return apply(ctx, tx, e)
		})
		given := settle.Item{Record: records(1, event("a", 1))[0], Compensate: true, NextAt: time.Now()}
		s.in.insert(given, false)
		s.start()
		time.Sleep(time.Minute)
		s.stop()
		s.wantEffects("a1")
		b.wantAsked("a1")
		if got := s.c.Stats(); got.Compensated != 1 {
			t.Errorf("stats are %+v, want one compensated", got)
		}
	})
}

func TestWhileABreakerIsHalfOpenOneEventAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{Concurrency: 4, Breaker: Breaker{Failures: 1, Wait: time.Minute, MaxWait: time.Minute}})
		b.fail = func(string) error { return settle.Unavailable(errBoom) }
		for p := range 4 {
			s.broker.publish(p, event(string(rune('a'+p)), 1))
		}
		s.start()
		time.Sleep(30 * time.Second) // all four were in flight when it opened
		before := b.times()
		time.Sleep(time.Minute)
		if probes := b.times() - before; probes != 1 {
			t.Errorf("%d ask after the wait, want one probe", probes)
		}
		s.stop()
	})
}

func TestManyThatFailAtOnceMakeOneWait(t *testing.T) {
	var g gate
	b := Config{}.withDefaults().Breaker
	now := epoch
	for range 8 {
		g.unavailable(now, b)
		now = now.Add(time.Millisecond)
	}
	if want := epoch.Add(b.Wait); !g.until.Equal(want) || !g.open {
		t.Errorf("open %v, waits until %v, want %v", g.open, g.until, want)
	}
	now = g.until
	g.unavailable(now, b)
	if want := now.Add(2 * b.Wait); !g.until.Equal(want) {
		t.Errorf("after a probe that failed it waits until %v, want %v", g.until, want)
	}
}

func TestADatabaseWithATransactionPerItemAsksToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		s.in.each = true
		s.broker.publish(0, event("a", 1), event("b", 1), event("a", 2))
		s.start()
		time.Sleep(time.Second)
		s.stop()
		s.wantEffects("a1", "a2", "b1")
		b.wantAsked("a1", "b1", "a2")
		if !slices.Equal(s.in.applied(), []string{"a1", "b1", "a2"}) {
			t.Errorf("effects in the order %v", s.in.applied())
		}
	})
}
