package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/settlemq/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAConsumerAppliesWhatIsPublishedAndStopsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{Concurrency: 2, BatchRows: 3})
		s.c.Handle("t", apply)
		s.broker.leased = true
		var want []string
		for p := range 4 {
			for n := range 20 {
				e := event(fmt.Sprintf("p%dk%d-", p, n%2), n)
				want = append(want, e.ID)
				s.broker.publish(p, e)
			}
		}
		s.start()
		s.broker.publish(0, event("late", 1))
		synctest.Wait()
		want = append(want, "late1")
		slices.Sort(want)
		s.wantEffects(want...)
		stats := s.c.Stats()
		if stats.Applied != 81 || stats.Received != 81 || stats.Lag != 0 {
			t.Errorf("stats are %+v", stats)
		}
		s.stop()
		if f := s.in.floors[partName{"topic", 0}]; f.Position != 21 || f.EventID != "late1" {
			t.Errorf("the floor is %+v", f)
		}
		if len(s.in.released) != 1 || !strings.Contains(s.in.released[0], "-") {
			t.Errorf("released by %v", s.in.released)
		}
	})
}

func TestAPanicIsAnAttemptWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		panics := true
		s.c.Handle("t", func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			tx.effect(e)
			if panics {
				panics = false
				panic("nil map")
			}
			return nil
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		it, _, _ := s.in.row("a1")
		if it.Class != settle.ClassPanic || !strings.Contains(it.Cause, "nil map") || !strings.Contains(it.Cause, "consumer_test.go") {
			t.Errorf("parked as %s because of %s", it.Class, it.Cause)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s.wantEffects("a1")
		s.stop()
	})
}

func TestAHandlerThatExceedsItsTimeoutIsCancelledAndTheNextIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{HandlerTimeout: time.Hour, MaxBatchTime: time.Hour})
		s.c.HandleWith("t", HandlerOptions{Timeout: time.Second}, func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			if e.ID == "b1" {
				<-ctx.Done()
				return nil // and pretends that nothing was wrong
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			time.Sleep(600 * time.Millisecond) // two of them are longer than one timeout
			tx.effect(e)
			return nil
		})
		s.broker.publish(0, event("a", 1), event("a", 2), event("b", 1), event("c", 1))
		s.start()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.wantEffects("a1", "a2", "c1")
		if it, _, _ := s.in.row("b1"); !strings.Contains(it.Cause, "exceeded its timeout") {
			t.Errorf("parked because of %q", it.Cause)
		}
		s.stop()
	})
}

func TestABatchHandlerGetsTheNewEventsOfATransactionInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.in.log["a2"] = settle.VerdictApplied
		var calls [][]string
		s.c.HandleBatch("t", func(_ context.Context, tx *fakeTx, events []*settle.Event) error {
			var ids []string
			for _, e := range events {
				ids = append(ids, e.ID)
				tx.effect(e)
			}
			calls = append(calls, ids)
			if slices.Contains(ids, "b1") {
				return errBoom
			}
			return nil
		})
		s.broker.publish(0, event("a", 1), event("a", 2), event("a", 3), event("b", 1))
		s.start()
		if len(calls) == 0 || !slices.Equal(calls[0], []string{"a1", "a3", "b1"}) {
			t.Errorf("calls are %v", calls)
		}
		s.wantEffects("a1", "a3")
		if it, _, ok := s.in.row("b1"); !ok || it.Attempt != 1 {
			t.Errorf("b1 is parked: %v, after %d attempts", ok, it.Attempt)
		}
		s.stop()
	})
}

func TestOldVersionsAreBroughtUpAndUnknownOnesDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		var got []string
		s.c.HandleWith("t", HandlerOptions{MaxVersion: 3, Upcast: func(e *settle.Event) (*settle.Event, error) {
			switch e.Version {
			case 1:
				return nil, errors.New("version 1 is not known any more")
			case 2:
				e.Version, e.Payload = 3, []byte("up")
			}
			return e, nil
		}}, func(_ context.Context, _ *fakeTx, e *settle.Event) error {
			got = append(got, fmt.Sprint(e.ID, e.Version, string(e.Payload)))
			return nil
		})
		one, two, three, four := event("a", 1), event("b", 2), event("c", 3), event("d", 4)
		two.Version, three.Version, four.Version = 2, 3, 4
		s.broker.publish(0, two, three, one, four)
		s.start()
		if want := []string{"b23up", "c33"}; !slices.Equal(got[len(got)-2:], want) {
			t.Errorf("handled %v, want %v", got, want)
		}
		if two.Version != 2 {
			t.Error("the delivered event was changed")
		}
		for _, id := range []string{"a1", "d4"} {
			if it, dead, _ := s.in.row(id); !dead || it.Class != settle.ClassVersion {
				t.Errorf("%s is dead %v as %s: %s", id, dead, it.Class, it.Cause)
			}
		}
		s.stop()
	})
}

func TestTheStoreIsWaitedOutWithOneLinePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.Handle("t", apply)
		down := true
		s.in.fail = func(settle.Work) error {
			if down {
				return errors.New("disk full")
			}
			return nil
		}
		s.broker.publish(0, event("a", 1))
		s.start()
		time.Sleep(time.Minute)
		s.in.mu.Lock()
		down = false
		s.in.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.wantEffects("a1")
		if n := strings.Count(s.log.String(), "\n"); n != 2 || !strings.Contains(s.log.String(), "disk full") {
			t.Errorf("the log is:\n%s", s.log)
		}
		s.stop()
	})
}

func TestAnotherLifeOfTheStreamEndsRunWithAClearError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.Handle("t", apply)
		s.in.fail = func(settle.Work) error { return settle.ErrNewGeneration }
		s.broker.publish(0, event("a", 1))
		s.start()
		err := <-s.ended
		s.cancel()
		if !errors.Is(err, settle.ErrNewGeneration) || !strings.Contains(err.Error(), `group "g"`) {
			t.Errorf("Run returns %v", err)
		}
	})
}

func TestAnErrorOfTheSubscriptionEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.Handle("t", apply)
		s.broker.err = settle.ErrClosed
		s.start()
		s.cancel()
		if err := <-s.ended; !errors.Is(err, settle.ErrClosed) {
			t.Errorf("Run returns %v", err)
		}
	})
}

func TestStoppingFinishesTheTransactionInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{BatchRows: 1})
		s.c.Handle("t", func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			time.Sleep(5 * time.Second)
			tx.effect(e)
			return ctx.Err()
		})
		s.broker.publish(0, event("a", 1), event("a", 2))
		s.broker.publish(1, event("b", 1))
		s.start()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := s.in.applied(); len(got) != 1 || (got[0] != "a1" && got[0] != "b1") {
			t.Errorf("effects are %v, want what was in flight: a1 or b1", got)
		}
		if len(s.broker.refused) != 1 {
			t.Errorf("refused %v, want what had not begun", s.broker.refused)
		}
	})
}

func TestStoppingCancelsWhatTakesTooLongWithoutAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{StopTimeout: 2 * time.Second})
		s.c.Handle("t", func(ctx context.Context, tx *fakeTx, e *settle.Event) error {
			<-ctx.Done()
			return errors.New("interrupted")
		})
		s.broker.publish(0, event("a", 1))
		s.start()
		s.stop()
		if _, _, ok := s.in.row("a1"); ok {
			t.Error("the event is parked")
		}
		if n := s.c.Stats().Failed; n != 0 {
			t.Errorf("%d attempts are counted", n)
		}
	})
}

func TestDeathsOfOwnersReachTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.Handle("t", apply)
		s.broker.leased, s.in.deaths = true, 2
		s.broker.publish(0, event("a", 1))
		s.start()
		if !strings.Contains(s.log.String(), "state=suspect") {
			t.Errorf("the log is:\n%s", s.log)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.wantEffects("a1")
		s.stop()
	})
}

func TestAPartitionThatIsNotClaimedAgainIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		session := newSession(s.c, s.c.cfg.withDefaults())
		session.step(Tick{})
		if _, err := session.Claim(t.Context(), "topic", 2); err != nil {
			t.Fatal(err)
		}
		if _, known := session.machine.parts[partName{"topic", 1}]; !known {
			t.Fatal("the machine does not know of the claim")
		}
		if _, err := session.Claim(t.Context(), "topic", 1); err != nil { // the fake gives what is asked for
			t.Fatal(err)
		}
		session.inbox = oneClaim{s.in}
		if _, err := session.Claim(t.Context(), "topic", 2); err != nil {
			t.Fatal(err)
		}
		if _, known := session.machine.parts[partName{"topic", 1}]; known {
			t.Error("the machine still counts on a partition that is another's")
		}
	})
}

// oneClaim grants only partition 0.
type oneClaim struct{ *fakeInbox }

func (o oneClaim) Claim(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
	claims, err := o.fakeInbox.Claim(ctx, r)
	return claims[:1], err
}

func TestCrashPointsAreMetInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var points []string
		s := newStand(t, Config{BatchRows: 1, Crash: func(p string) {
			mu.Lock()
			points = append(points, p)
			mu.Unlock()
		}})
		s.c.Handle("t", apply)
		s.broker.publish(0, event("a", 1), event("a", 2))
		s.start()
		want := []string{
			"consume.after_fetch", "consume.before_apply", "consume.in_handler", "consume.before_commit", "consume.after_commit",
			"consume.after_ack", "consume.after_fetch", "consume.before_apply",
		}
		if len(points) < len(want) || !slices.Equal(points[:len(want)], want) {
			t.Errorf("points are %v", points)
		}
		s.stop()
	})
}

func TestRunRefusesWhatCanNotBeRight(t *testing.T) {
	for _, c := range []struct {
		name, group, want string
		cfg               Config
		set               func(*Consumer[*fakeTx])
	}{
		{name: "no group", want: "group is empty"},
		{name: "a negative bound", group: "g", cfg: Config{BatchRows: -1}, want: "BatchRows is negative"},
		{name: "a negative rate", group: "g", cfg: Config{RateLimit: -1}, want: "RateLimit is negative"},
		{name: "a window below the replay horizon", group: "g", cfg: Config{DedupWindow: time.Hour, ReplayHorizon: 2 * time.Hour}, want: "below ReplayHorizon"},
		{name: "a type without a name", group: "g", set: func(c *Consumer[*fakeTx]) { c.Handle("", apply) }, want: "type is empty"},
		{name: "a nil handler", group: "g", set: func(c *Consumer[*fakeTx]) { c.HandleBatch("t", nil) }, want: "is nil"},
		{name: "two handlers of a type", group: "g", set: func(c *Consumer[*fakeTx]) { c.Handle("t", apply); c.Handle("t", apply) }, want: "one already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			con := New(c.group, newFakeBroker(1), newFakeInbox(time.Now), c.cfg)
			if c.set != nil {
				c.set(con)
			}
			if err := con.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run returns %v, want %q", err, c.want)
			}
		})
	}
}
