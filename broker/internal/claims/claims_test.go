package claims_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/internal/claims"
)

const lease = 3 * time.Second

// ledger answers claims with what a test puts in it.
type ledger struct {
	mu     sync.Mutex
	owned  map[int]int64 // partition to epoch
	err    error
	claims int
}

func (l *ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *ledger) count() (n int) {
	l.set(func() { n = l.claims })
	return n
}

func (l *ledger) Claim(_ context.Context, topic string, n int) ([]settle.Claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims++
	if l.err != nil {
		return nil, l.err
	}
	var all []settle.Claim
	for p := range n {
		if epoch, ok := l.owned[p]; ok {
			all = append(all, settle.Claim{Partition: settle.Partition{Topic: topic, Number: p, Owner: "me", Epoch: epoch}, Expires: time.Now().Add(lease)})
		}
	}
	return all, nil
}

func (l *ledger) RaiseFloor(context.Context, settle.Partition, settle.Floor) error { return nil }

// readers records what reads when.
type readers struct {
	mu     sync.Mutex
	active map[string]bool
	starts int
	result error // what a reader returns at once, if not nil
}

func (r *readers) read(ctx context.Context, c settle.Claim) error {
	name := fmt.Sprintf("%d/%d", c.Partition.Number, c.Partition.Epoch)
	r.mu.Lock()
	r.starts++
	result := r.result
	r.active[name] = true
	r.mu.Unlock()
	if result == nil {
		<-ctx.Done()
	}
	r.mu.Lock()
	delete(r.active, name)
	r.mu.Unlock()
	return result
}

func (r *readers) names() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := ""
	for p := range 3 {
		for epoch := range 5 {
			if name := fmt.Sprintf("%d/%d", p, epoch); r.active[name] {
				names += name + " "
			}
		}
	}
	return names
}

// run starts a loop in a bubble and hands over to the test.
func run(t *testing.T, test func(l *ledger, r *readers, ended chan error)) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{owned: map[int]int64{0: 1, 1: 1}}
		r := &readers{active: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		loop := claims.Loop{Ownership: l, Topic: "t", Partitions: 3, Read: r.read, Log: slog.New(slog.DiscardHandler)}
		go func() { ended <- loop.Run(ctx) }()
		synctest.Wait()
		test(l, r, ended)
		cancel()
		synctest.Wait()
		if left := r.names(); left != "" {
			t.Errorf("readers outlive the loop: %s", left)
		}
	})
}

func want(t *testing.T, r *readers, names string) {
	t.Helper()
	synctest.Wait()
	if got := r.names(); got != names {
		t.Errorf("readers are %q, want %q", got, names)
	}
}

func TestAReaderRunsForEachClaimAndStopsWhenItIsLost(t *testing.T) {
	run(t, func(l *ledger, r *readers, _ chan error) {
		want(t, r, "0/1 1/1 ")
		l.set(func() { delete(l.owned, 0); l.owned[2] = 4 })
		time.Sleep(lease / 2)
		want(t, r, "1/1 2/4 ")
		time.Sleep(10 * lease)
		want(t, r, "1/1 2/4 ")
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.starts != 3 {
			t.Errorf("%d readers were started for 3 claims", r.starts)
		}
	})
}

func TestANewEpochEndsTheReaderOfTheOldOneFirst(t *testing.T) {
	run(t, func(l *ledger, r *readers, _ chan error) {
		l.set(func() { l.owned[0] = 2 })
		time.Sleep(lease)
		want(t, r, "0/2 1/1 ")
	})
}

func TestWithoutRenewalReadersStopBeforeTheLeaseEnds(t *testing.T) {
	run(t, func(l *ledger, r *readers, _ chan error) {
		l.set(func() { l.err = errors.New("the database is down") })
		time.Sleep(lease - lease/8 + lease/16) // the last claim was granted at the start
		want(t, r, "")
		l.set(func() { l.err = nil })
		time.Sleep(lease)
		want(t, r, "0/1 1/1 ")
	})
}

func TestAFencedReaderIsClaimedAgainWithoutSpinning(t *testing.T) {
	run(t, func(l *ledger, r *readers, _ chan error) {
		r.mu.Lock()
		r.result = settle.ErrFenced
		r.mu.Unlock()
		l.set(func() { l.owned = map[int]int64{0: 2} })
		before := l.count()
		time.Sleep(lease)
		if n := l.count() - before; n > 100 {
			t.Errorf("%d claims within one lease", n)
		}
		r.mu.Lock()
		r.result = nil
		r.mu.Unlock()
		time.Sleep(lease)
		want(t, r, "0/2 ")
	})
}

func TestANewGenerationEndsTheLoop(t *testing.T) {
	run(t, func(l *ledger, r *readers, ended chan error) {
		r.mu.Lock()
		r.result = fmt.Errorf("partition 2: %w", settle.ErrNewGeneration)
		r.mu.Unlock()
		l.set(func() { l.owned[2] = 1 })
		time.Sleep(lease)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, settle.ErrNewGeneration) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the loop goes on")
		}
		want(t, r, "")
	})
}
