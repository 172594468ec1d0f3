package consumer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle"
)

// bank is another system: it notes who asks it.
type bank struct {
	t     *testing.T
	in    *fakeInbox
	mu    sync.Mutex
	asked []string
	fail  func(id string) error
}

func (b *bank) ask(_ context.Context, e *settle.Event) (string, error) {
	select {
	case b.in.mu <- struct{}{}: // the inbox holds it while a transaction is open
		b.in.mu.Unlock()
	case <-time.After(time.Second):
		b.t.Error("another system is asked in a transaction")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, e.ID)
	if b.fail != nil {
		if err := b.fail(e.ID); err != nil {
			return "", err
		}
	}
	return "yes to " + e.ID, nil
}

// times says how often it was asked so far.
func (b *bank) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

func (b *bank) wantAsked(ids ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.asked, ids) {
		b.t.Errorf("asked for %v, want %v", b.asked, ids)
	}
}

// newBank returns a consumer whose handler of type t asks a bank.
func newBank(t *testing.T, cfg Config) (*stand, *bank) {
	s := newStand(t, cfg)
	b := &bank{t: t, in: s.in}
	s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
		tx.effect(e) // rolled back when the answer is not there yet
		answer, err := Ask(ctx, func(ctx context.Context) (string, error) { return b.ask(ctx, e) })
		if err == nil && answer != "yes to "+e.ID {
			t.Errorf("%s is handled with the answer %v", e.ID, answer)
		}
		return err
	})
	return s, b
}

func TestAnotherSystemIsAskedOutsideOfTheTransactionAndItsAnswerReachesTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{})
		s.broker.publish(0, event("a", 1), event("b", 1))
		s.start()
		time.Sleep(time.Second)
		s.wantEffects("a1", "b1")
		b.wantAsked("a1", "b1")
		s.stop()
	})
}

func TestWhatIsDoneOrWaitsBehindAFailedEventAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := newBank(t, Config{Retry: settle.Backoff{Base: time.Minute, Attempts: 3}})
		b.fail = func(id string) error {
			if id == "a1" && len(b.asked) == 1 {
				return errBoom
			}
			return nil
		}
		s.broker.publish(0, event("a", 1), event("a", 2), event("a", 1))
		s.start()
		time.Sleep(10 * time.Second)
		b.wantAsked("a1") // a2 waits for it
		s.wantEffects()
		time.Sleep(5 * time.Minute)
		s.wantEffects("a1", "a2")
		b.wantAsked("a1", "a1", "a2")
		s.broker.publish(0, event("a", 1))
		time.Sleep(10 * time.Second)
		b.wantAsked("a1", "a1", "a2")
		s.stop()
	})
}

func TestManyAskAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{Concurrency: 3})
		waiting := make(chan struct{}, 3)
		all := make(chan struct{})
		ask := func(context.Context) (any, error) {
			waiting <- struct{}{}
			<-all // a bank that answers when three have asked
			return nil, nil
		}
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			if _, err := Ask(ctx, ask); err != nil {
				return err
			}
			return apply(ctx, tx, e)
		})
		for p := range 3 {
			s.broker.publish(p, event(string(rune('a'+p)), 1))
		}
		s.start()
		time.Sleep(time.Second)
		if len(waiting) != 3 {
			t.Errorf("%d ask at a time, want 3", len(waiting))
		}
		close(all)
		time.Sleep(time.Second)
		s.wantEffects("a1", "b1", "c1")
		s.stop()
	})
}

func TestWhatTheOtherSystemFailsWithCountsAsTheHandlersError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		dead bool
		want int
	}{
		"tried again": {errBoom, true, 3},
		"permanent":   {settle.Permanent(errBoom), true, 1},
		"unavailable": {settle.Unavailable(errBoom), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := newBank(t, Config{Retry: settle.Backoff{Base: time.Second, Attempts: 3}})
				b.fail = func(string) error { return c.err }
				s.broker.publish(0, event("a", 1))
				s.start()
				time.Sleep(time.Minute)
				s.stop()
				s.wantEffects()
				dead := slices.ContainsFunc(s.in.rows, func(r fakeRow) bool { return r.dead && r.item.Attempt == c.want })
				if dead != c.dead {
					t.Errorf("rows are %+v, want dead %v after %d attempts", s.in.rows, c.dead, c.want)
				}
				if !c.dead && len(b.asked) < 2 {
					t.Errorf("asked %d times; an absent system is asked again", len(b.asked))
				}
			})
		})
	}
}

func TestSeveralQuestionsAreAskedInTurnAndEachOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		runs := 0
		var asked []int
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			runs++
			sum := 0
			for i := range 3 {
				n, err := Ask(ctx, func(context.Context) (int, error) {
					asked = append(asked, i)
					return 10 * (i + 1), nil
				})
				if err != nil {
					return err
				}
				sum += n
			}
			if sum != 60 {
				t.Errorf("the answers are worth %d, want 60", sum)
			}
			return apply(ctx, tx, e)
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Second)
		s.wantEffects("a1")
		if runs != 4 || !slices.Equal(asked, []int{0, 1, 2}) {
			t.Errorf("the handler ran %d times and asked %v", runs, asked)
		}
		s.stop()
	})
}

func TestAHandlerThatGoesOnWithoutTheAnswerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		runs := 0
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			runs++
			_, _ = Ask(ctx, func(context.Context) (int, error) { return 1, nil })
			return apply(ctx, tx, e)
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Second)
		s.wantEffects("a1")
		if runs != 2 {
			t.Errorf("the handler ran %d times, want 2: its first transaction must not be kept", runs)
		}
		s.stop()
	})
}

func TestAHandlerThatNeverStopsAskingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{Retry: settle.Backoff{Base: time.Second, Attempts: 1}})
		asked := 0
		s.c.HandleWith("t", HandlerOptions{External: true}, func(ctx context.Context, _ *fakeTx, _ *settle.Event) error {
			for {
				if _, err := Ask(ctx, func(context.Context) (int, error) { asked++; return 1, nil }); err != nil {
					return err
				}
			}
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Second)
		s.stop()
		if asked != maxQuestions || len(s.in.rows) != 1 || !s.in.rows[0].dead {
			t.Errorf("asked %d times, rows %+v", asked, s.in.rows)
		}
	})
}

func TestOutsideOfAConsumerAQuestionIsAskedAtOnce(t *testing.T) {
	if got, err := Ask(t.Context(), func(context.Context) (string, error) { return "yes", nil }); got != "yes" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
