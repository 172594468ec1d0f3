package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// start of the time that machines under test go by.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func testMachine() *machine {
	return newMachine(Config{Retry: settle.Backoff{Attempts: 3, Jitter: -1}}.withDefaults())
}

// kinds names what is to be done.
func kinds(do []command) string {
	text := ""
	for _, c := range do {
		text += fmt.Sprintf("%T ", c)
	}
	return text
}

func want(t *testing.T, do []command, kind string) {
	t.Helper()
	if kinds(do) != kind {
		t.Fatalf("it does %q, want %q", kinds(do), kind)
	}
}

func leaseAt(now time.Time, epoch int64) led {
	return led{lease: Lease{Group: "g", Owner: "o", Epoch: epoch, Held: true, Expires: now.Add(15 * time.Second)}}
}

const reads, looks, sends, marks, leads = "bridge.readNow ", "bridge.lookNow ", "bridge.sendNow ", "bridge.markNow ", "bridge.leadNow "

// leading returns a machine that leads and has these orders in hand, the first
// of them on its way.
func leading(t *testing.T, orders ...int64) *machine {
	t.Helper()
	m := testMachine()
	want(t, m.step(start, nil), leads)
	want(t, m.step(start, leaseAt(start, 1)), reads+looks)
	var o Ordered
	for _, id := range orders {
		o.Orders = append(o.Orders, Order{ID: id, Return: Return{ID: fmt.Sprint("r", id)}})
	}
	want(t, m.step(start, found{ordered: o}), sends)
	return m
}

func TestWhoDoesNotLeadReadsAndSendsNothing(t *testing.T) {
	m := testMachine()
	want(t, m.step(start, nil), leads)
	want(t, m.step(start, led{}), "")
	if next := m.next(); !next.After(start) {
		t.Fatalf("it wakes at %s, at once", next)
	}
	want(t, m.step(m.next(), nil), leads)
	want(t, m.step(start, led{err: errors.New("away")}), "")
	if m.stats.Trouble != TroubleStore {
		t.Fatalf("trouble is %q", m.stats.Trouble)
	}
}

func TestAReplayIsRecordedBeforeTheNextOneGoesOut(t *testing.T) {
	m := leading(t, 1, 2)
	want(t, m.step(start, nil), "")
	want(t, m.step(start, sent{order: Order{ID: 1}}), marks)
	want(t, m.step(start, marked{mark: Mark{ID: 1}, err: errors.New("away")}), "")
	want(t, m.step(start.Add(firstWait), nil), marks)
	want(t, m.step(start.Add(firstWait), marked{mark: Mark{ID: 1}}), sends)
	if m.stats.Returned != 1 {
		t.Fatalf("returned are %d", m.stats.Returned)
	}
}

func TestABrokerThatDoesNotAnswerHoldsTheOthersUpAndTriesAreBounded(t *testing.T) {
	m := leading(t, 1, 2)
	away := &settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("no answer")}
	do := m.step(start, sent{order: Order{ID: 1, Return: Return{ID: "r1"}}, err: away})
	want(t, do, marks)
	if mark := do[0].(markNow).mark; mark.Result != ResultAgain || mark.Tries != 1 || !mark.NextAt.Equal(start.Add(2*time.Second)) {
		t.Fatalf("the mark is %+v", mark)
	}
	want(t, m.step(start, marked{mark: Mark{Result: ResultAgain}}), "")
	want(t, m.step(start.Add(2*time.Second), nil), looks)
	m.step(start.Add(2*time.Second), found{ordered: Ordered{Orders: []Order{{ID: 1, Tries: 2}}}})
	do = m.step(start.Add(2*time.Second), sent{order: Order{ID: 1, Tries: 2}, err: away})
	want(t, do, marks)
	if mark := do[0].(markNow).mark; mark.Result != ResultGivenUp || mark.Tries != 3 || mark.Cause == "" {
		t.Fatalf("the mark after the last try is %+v", mark)
	}
}

func TestALetterThatIsRefusedIsGivenUpAtOnceAndOneWhosePlaceIsMissingIsTriedAgain(t *testing.T) {
	m := leading(t, 1, 2)
	do := m.step(start, sent{order: Order{ID: 1}, err: &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("too large")}})
	if mark := do[0].(markNow).mark; mark.Result != ResultGivenUp || mark.Cause == "" {
		t.Fatalf("the mark is %+v", mark)
	}
	want(t, m.step(start, marked{mark: Mark{ID: 1, Result: ResultGivenUp}}), sends)
	do = m.step(start, sent{order: Order{ID: 2}, err: &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New("no queue")}})
	if mark := do[0].(markNow).mark; mark.Result != ResultAgain || mark.NextAt.IsZero() {
		t.Fatalf("the mark is %+v", mark)
	}
}

func TestALostLeaseEndsReadingAndForgetsWhatIsInHand(t *testing.T) {
	for name, lose := range map[string]func(m *machine) []command{
		"taken by another": func(m *machine) []command { return m.step(start.Add(5*time.Second), led{}) },
		"run out":          func(m *machine) []command { return m.step(start.Add(15*time.Second), nil) },
		"fenced":           func(m *machine) []command { return m.step(start.Add(time.Second), kept{err: settle.ErrFenced}) },
	} {
		m := leading(t, 1, 2)
		m.step(start.Add(5*time.Second), nil) // asks for more time
		if do := kinds(lose(m)); do != "bridge.stopReading " {
			t.Errorf("%s: it does %q, want it to stop reading", name, do)
		}
		if m.stats.Leading || len(m.orders) != 0 {
			t.Errorf("%s: it leads %v with %d orders", name, m.stats.Leading, len(m.orders))
		}
		if do := kinds(m.step(start.Add(5*time.Second), sent{order: Order{ID: 1}})); do != "" {
			t.Errorf("%s: what comes back then makes it do %q", name, do)
		}
	}
}

func TestASourceThatFailsIsReadAgainLaterAndLater(t *testing.T) {
	m := leading(t, 1)
	now := start
	var last time.Duration
	for range 8 {
		m.step(now, leaseAt(now, 1))
		want(t, m.step(now, ended{errors.New("there is no queue")}), "")
		wait := m.readAt.Sub(now)
		if wait < last || wait > lastWait || m.stats.Trouble != TroubleSource {
			t.Fatalf("it waits %s after %s, trouble %q", wait, last, m.stats.Trouble)
		}
		last, now = wait, m.readAt
		m.renewAt = now.Add(time.Hour)
		m.lease.Expires = now.Add(time.Hour)
		want(t, m.step(now, nil), reads)
	}
}

// Whatever comes in whatever order, at most one of each is under way, nothing
// is done without a lease, and time alone never makes it spin.
func TestWhateverComesNothingIsDoneTwiceAtOnceOrWithoutALease(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, now := testMachine(), start
		open := map[string]int{}
		var epoch int64
		for range 200 {
			for _, c := range m.step(now, randomInput(r, now, open, &epoch)) {
				name := fmt.Sprintf("%T", c)
				if _, stops := c.(stopReading); stops {
					continue
				}
				if open[name]++; open[name] > 1 {
					t.Fatalf("seed %d: %s is under way twice", seed, name)
				}
				if _, asks := c.(leadNow); !asks && !(m.lease.Held && now.Before(m.lease.Expires)) {
					t.Fatalf("seed %d: %s without a lease", seed, name)
				}
			}
			if open["bridge.sendNow"]+open["bridge.markNow"] > 1 {
				t.Fatalf("seed %d: it sends while it records", seed)
			}
			if next := m.next(); !next.After(now) {
				t.Fatalf("seed %d: it wakes at %s although it is %s", seed, next, now)
			}
			now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
		}
	}
}

// randomInput answers one thing that is under way, or lets time pass.
func randomInput(r *rand.Rand, now time.Time, open map[string]int, epoch *int64) input {
	failed := []error{nil, nil, errors.New("away"), settle.ErrFenced, &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New("x")}}[r.IntN(5)]
	var names []string
	for _, name := range []string{"bridge.leadNow", "bridge.readNow", "bridge.lookNow", "bridge.sendNow", "bridge.markNow"} {
		if open[name] > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 || r.IntN(3) == 0 {
		return nil
	}
	name := names[r.IntN(len(names))]
	open[name] = 0
	switch name {
	case "bridge.leadNow":
		in := leaseAt(now, *epoch)
		if r.IntN(4) == 0 {
			*epoch++
			in.lease.Epoch = *epoch
		}
		in.lease.Held, in.err = r.IntN(4) > 0, failed
		return in
	case "bridge.readNow":
		if r.IntN(3) == 0 {
			return ended{failed}
		}
		open[name] = 1
		return kept{letters: 2, fresh: 1, err: failed}
	case "bridge.lookNow":
		return found{Ordered{Orders: make([]Order, r.IntN(4))}, failed}
	case "bridge.sendNow":
		return sent{Order{Tries: r.IntN(3)}, failed}
	}
	return marked{Mark{Result: Result(r.IntN(3))}, failed}
}

func TestWhatFailsIsToldUntilThatSucceedsAndNotWhileAnotherLeads(t *testing.T) {
	m := leading(t, 1)
	m.step(start, kept{err: errors.New("the disk is full")})
	m.step(start, ended{errors.New("there is no queue")})
	m.step(start, sent{order: Order{ID: 1}})
	m.step(start, marked{mark: Mark{ID: 1}})
	m.step(start, found{})
	if m.stats.Trouble != TroubleStore || m.stats.Cause != "the disk is full" {
		t.Fatalf("it tells of %q, %q", m.stats.Trouble, m.stats.Cause)
	}
	m.step(start, kept{letters: 1, fresh: 1})
	if m.stats.Trouble != "" {
		t.Fatalf("it tells of %q, %q after a letter was kept", m.stats.Trouble, m.stats.Cause)
	}
	m.step(start, ended{errors.New("there is no queue")})
	if m.stats.Trouble != TroubleSource {
		t.Fatalf("it tells of %q", m.stats.Trouble)
	}
	m.step(start.Add(15*time.Second), nil) // the lease has run out
	if m.stats.Trouble != "" {
		t.Fatalf("it tells of %q although another may lead", m.stats.Trouble)
	}
}
