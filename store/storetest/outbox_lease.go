package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func leaseCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a standby waits until the lease has run out", standbyWaits[Tx]},
		{"a renewed lease runs on and keeps its epoch", renewalKeeps[Tx]},
		{"a leader that was silent goes on if nobody took over", silentLeader[Tx]},
		{"after a clean end the successor starts at once and counts no death", cleanEnd[Tx]},
		{"a leader that ends soon after it took over is a death, and deaths add up", deathsCount[Tx]},
		{"a leader that lived long ends the row of deaths", longLifeEndsDeaths[Tx]},
		{"every write of a leader that was overtaken is refused and leaves nothing", zombieRefused[Tx]},
		{"a leader that has resigned may not write", resignedRefused[Tx]},
		{"a leader that is overtaken learns it at its next renewal", overtakenLearns[Tx]},
	}
}

func (o *outbox[Tx]) try(log relay.Store, owner string, ttl time.Duration) relay.Lease {
	o.Helper()
	l, err := log.Lead(o.ctx, owner, 0, ttl)
	if err != nil {
		o.Fatalf("Lead by %s: %v", owner, err)
	}
	return l
}

func standbyWaits[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	first := o.try(o.Store, "first", leaseTime)
	if !first.Held || first.Epoch < 1 || first.Deaths != 0 {
		t.Fatalf("the first leader has %+v", first)
	}
	if l := o.try(o.Standby, "second", leaseTime); l.Held {
		t.Fatal("the standby leads while the lease runs")
	}
	o.Pass(leaseTime + 100*time.Millisecond)
	second := o.try(o.Standby, "second", leaseTime)
	if !second.Held || second.Epoch <= first.Epoch {
		t.Fatalf("after the lease ran out the standby has %+v; the epoch was %d", second, first.Epoch)
	}
}

func renewalKeeps[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	first := o.try(o.Store, "first", leaseTime)
	for range 3 {
		o.Pass(leaseTime / 2)
		again := o.try(o.Store, "first", leaseTime)
		if !again.Held || again.Epoch != first.Epoch || !again.Expires.After(first.Expires) {
			t.Fatalf("renewed lease is %+v, it was %+v", again, first)
		}
		if l := o.try(o.Standby, "second", leaseTime); l.Held {
			t.Fatal("the standby leads although the lease was renewed")
		}
	}
}

func silentLeader[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	first := o.try(o.Store, "first", leaseTime)
	o.Pass(3 * leaseTime)
	if again := o.try(o.Store, "first", leaseTime); !again.Held || again.Epoch != first.Epoch {
		t.Fatalf("after silence the lease is %+v, it was %+v", again, first)
	}
}

func cleanEnd[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		t.Fatalf("Resign: %v", err)
	}
	l := o.try(o.Standby, "second", leaseTime)
	if !l.Held || l.Deaths != 0 || l.Epoch <= o.lease.Epoch {
		t.Fatalf("the successor of a leader that resigned has %+v", l)
	}
}

// dies takes the lease, commits n checkpoints and falls silent for ever.
func (o *outbox[Tx]) dies(log relay.Store, owner string, commits int) relay.Lease {
	o.Helper()
	l := o.try(log, owner, leaseTime)
	if !l.Held {
		o.Fatalf("%s does not lead", owner)
	}
	for i := range commits {
		f := relay.Flush{Checkpoint: relay.Checkpoint{Number: int64(i + 1), Readers: []relay.Reader{{Cursor: int64(i)}}}}
		if err := log.Commit(o.ctx, l, f); err != nil {
			o.Fatalf("Commit by %s: %v", owner, err)
		}
	}
	o.Pass(leaseTime + 100*time.Millisecond)
	return l
}

func deathsCount[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	logs := []relay.Store{o.Store, o.Standby}
	for i, owner := range []string{"a", "b", "c", "d"} {
		if l := o.dies(logs[i%2], owner, i%2); l.Deaths != i {
			t.Fatalf("leader %s sees %d deaths, want %d", owner, l.Deaths, i)
		}
	}
}

func longLifeEndsDeaths[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.dies(o.Store, "a", 1)
	o.dies(o.Standby, "b", 2)
	if l := o.try(o.Store, "c", leaseTime); l.Deaths != 2 {
		t.Fatalf("after two deaths: %d", l.Deaths)
	}
	for range 3 * relay.LongLife {
		o.Pass(leaseTime / 2)
		o.try(o.Store, "c", leaseTime)
	}
	if l := o.dies(o.Store, "c", 0); l.Deaths != 2 {
		t.Fatalf("a renewal changes the deaths to %d", l.Deaths)
	}
	if l := o.dies(o.Standby, "d", 1); l.Deaths != 1 {
		t.Fatalf("the leader before lived long, and its successor sees %d deaths", l.Deaths)
	}
}

func zombieRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	r := o.appendKeys("ab")
	o.lease = o.try(o.Store, "first", leaseTime)
	o.flush(0, relay.Flush{})
	o.Pass(leaseTime + 100*time.Millisecond)
	second := o.try(o.Standby, "second", time.Hour)
	if !second.Held {
		t.Fatal("the standby does not take over")
	}
	o.number = 100 // it would win by number
	err := o.tryFlush(r[1].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog)}, Park: []relay.Park{parkRow(r[1], settle.ClassPublish, 1, o.Now())}})
	wantFenced(t, "Commit", err)
	_, err = o.Store.Load(o.ctx, o.lease)
	wantFenced(t, "Load", err)
	_, err = o.Store.Sweep(o.ctx, o.lease, 10)
	wantFenced(t, "Sweep", err)
	_, err = o.Store.Retain(o.ctx, o.lease, o.Now().Add(time.Hour), 10)
	wantFenced(t, "Retain", err)
	wantFenced(t, "Resign", o.Store.Resign(o.ctx, o.lease))
	o.lease = second
	if st := o.load(); st.Checkpoint.Number != 1 || len(st.Parked) != 0 {
		t.Errorf("a zombie left checkpoint %d and parked keys %v", st.Checkpoint.Number, st.Parked)
	}
	if p := o.poll(relay.PollQuery{}); p.Number != 1 {
		t.Errorf("a zombie's checkpoint %d won", p.Number)
	}
	o.wantStatus("a", "PENDING")
}

func wantFenced(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, settle.ErrFenced) {
		t.Errorf("%s by a leader that was overtaken: %v, want ErrFenced", what, err)
	}
}

func resignedRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	if err := o.Store.Resign(o.ctx, o.lease); err != nil {
		t.Fatalf("Resign: %v", err)
	}
	wantFenced(t, "Commit", o.tryFlush(0, relay.Flush{}))
}

func overtakenLearns[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.try(o.Store, "first", leaseTime)
	o.Pass(leaseTime + 100*time.Millisecond)
	if l := o.try(o.Standby, "second", time.Hour); !l.Held {
		t.Fatal("the standby does not take over")
	}
	if l := o.try(o.Store, "first", leaseTime); l.Held {
		t.Error("a leader that was overtaken renews its lease")
	}
}
