package drill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/drill"
)

func drillConfig(t *testing.T, n int, faults ...string) drill.Config {
	cfg := drill.Config{
		Dir: t.TempDir(), Seed: 3, Faults: faults, Requests: requests(n), Interval: 20 * time.Millisecond,
		Say: t.Logf, Timeout: time.Minute,
	}
	if slices.Contains(faults, drill.FaultPoison) {
		for i := range 3 {
			cfg.Requests[10*i].Key = fmt.Sprintf("poison%d", i)
		}
		cfg.Poisoned = 3
	}
	if slices.Contains(faults, drill.FaultCouponStuck) {
		for i := range 4 {
			cfg.Requests[10*i+5].CustomerID = fmt.Sprintf("unlucky%d", i%2)
		}
		cfg.Stuck, cfg.Leave = []string{"unlucky0", "unlucky1"}, 3
	}
	return cfg
}

func TestEveryFaultHappensSeveralTimesWhileOrdersFlow(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 100, drill.FaultNames()...)
	var shown drill.Progress
	cfg.Show = func(p drill.Progress) { shown = p }
	began := time.Now()
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]int{}
	for _, m := range r.Marks {
		marked[m.Name]++
		if m.At < 0 || m.Until < m.At || m.Until > r.Duration+1 {
			t.Errorf("mark %+v of a run of %v s", m, r.Duration)
		}
	}
	for _, f := range r.Faults {
		want, marks := 2, 2
		switch f.Name {
		case drill.FaultDuplicate:
			want = 10 // the log is short at first
		case drill.FaultPoison:
			want, marks = 4, 1 // three orders and a foreign record
		case drill.FaultCouponStuck:
			want, marks = 4, 1
		}
		if f.Times < want || marked[f.Name] != marks {
			t.Errorf("%s happened %d times with %d marks; want %d with %d", f.Name, f.Times, marked[f.Name], want, marks)
		}
	}
	if len(r.Faults) != len(drill.FaultNames()) || r.Orders.Accepted != 100 || r.Deliveries.Received != 1 {
		t.Errorf("report %+v", r)
	}
	if r.Events.PublishedAgain != 0 {
		t.Errorf("%d planted copies are taken for the relay's", r.Events.PublishedAgain)
	}
	if shown.Orders != 100 || shown.Shots != 32 || r.Began.Before(began) {
		t.Errorf("progress %+v; began %v", shown, r.Began)
	}
	if n := p.Outside[1].Lives().Started; n != 1 {
		t.Errorf("the coupon system was started %d times: it forgot for whom to hang", n)
	}
	for _, c := range []*drill.Child{p.Broker, p.Entry, p.Services[0].Relay, p.Services[1].Consumer, p.Services[2].Relay, p.Outside[0]} {
		if err := c.Kill(0); !errors.Is(err, drill.ErrNotRunning) {
			t.Errorf("%s still runs (%v)", c.Name(), err)
		}
	}
}

func TestDeadLettersOfStuckCustomersAreLeftAndAllOthersRepaired(t *testing.T) {
	p := pretend(t)
	r, err := drill.Run(t.Context(), drillConfig(t, 100, drill.FaultPoison, drill.FaultCouponStuck), p.System)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.repairs) != 1 || len(p.repairs[0]) != 5 { // of three poisoned orders, one foreign record, and one that is not left
		t.Fatalf("repaired %v", p.repairs)
	}
	if len(r.Letters) != 3 || r.DeadLettersOpen != 3 || r.DeadLettersLeft != 3 || !r.Settled() {
		t.Errorf("left are %+v; %d open, %d to be left, settled: %v", r.Letters, r.DeadLettersOpen, r.DeadLettersLeft, r.Settled())
	}
	for _, l := range r.Letters {
		if l.Service != "marketing" {
			t.Errorf("left is %+v", l)
		}
	}
}

func TestAStuckCouponSystemIsCuredAlsoWhenNothingElseIsToBeRepaired(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 40, drill.FaultCouponStuck)
	cfg.Leave = 4
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.repairs) != 0 || len(p.hangs) != 0 || r.Faults[0].Times != 4 || r.DeadLettersOpen != 4 {
		t.Errorf("repaired %v; it hangs for %v; %+v, %d open", p.repairs, p.hangs, r.Faults, r.DeadLettersOpen)
	}
}

func TestDeadLettersThatWereToBeLeftAndNeverCameAreNotWaitedFor(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 40, drill.FaultCouponStuck, drill.FaultPoison)
	cfg.Stuck = []string{"nobody who orders"}
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	if bad := strings.Join(r.Failures(), "; "); !r.Settled() || r.DeadLettersOpen != 0 || !strings.Contains(bad, "coupon-stuck never happened") {
		t.Errorf("settled %v, %d open, %s", r.Settled(), r.DeadLettersOpen, bad)
	}
}

func TestWhatDiesAgainHoweverOftenItIsRepairedIsGivenUp(t *testing.T) {
	p := pretend(t)
	p.again = true
	r, err := drill.Run(t.Context(), drillConfig(t, 40, drill.FaultPoison), p.System)
	if !errors.Is(err, drill.ErrUnsettled) || r == nil || len(p.repairs) != 10 {
		t.Errorf("%v after %d repairs", err, len(p.repairs))
	}
}

func TestAnOutsideSystemThatNobodyAsksDidNothingWrong(t *testing.T) {
	p := pretend(t)
	p.System.Misbehaved = func(context.Context, string) (map[string]int64, error) { return nil, nil }
	cfg := drillConfig(t, 40, drill.FaultCarrierFail)
	cfg.Times = 1
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	if bad := r.Failures(); r.Faults[0].Times != 0 || !slices.Contains(bad, "the fault carrier-fail never happened") {
		t.Errorf("%+v: %v", r.Faults, bad)
	}
}

func TestRefusedRequestsAndActsOfCustomersAreAmongTheFacts(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 20)
	cfg.Requests[3].Refused = true
	cfg.Requests[4].Acts = []drill.Act{{Kind: drill.ActPay}, {Kind: drill.ActCancel}}
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int64{}
	for _, inv := range r.Invariants {
		checked[inv.ID] = inv.Checked
	}
	if r.Orders.Accepted != 19 || r.Orders.Refused != 1 || checked["A1"] != 1 || checked["A2"] != 1 || checked["A3"] != 1 {
		t.Errorf("%+v, checked %v", r.Orders, checked)
	}
	for _, kind := range []string{"pay", "cancel"} {
		if !slices.Contains(p.acts, kind+" o-k4") {
			t.Errorf("acts %v", p.acts)
		}
	}
}

func TestADrillFindsAnOrderThatWasAcknowledgedAndLost(t *testing.T) {
	p := pretend(t)
	p.forget = true
	r, err := drill.Run(t.Context(), drillConfig(t, 20), p.System)
	if err != nil {
		t.Fatal(err)
	}
	if bad := r.Failures(); !slices.ContainsFunc(bad, func(s string) bool { return strings.HasPrefix(s, "H1 ") }) {
		t.Errorf("failures: %v", bad)
	}
}

func TestADrillThatDoesNotSettleInTimeSaysSoWithItsReport(t *testing.T) {
	p := pretend(t)
	p.stuck = true
	cfg := drillConfig(t, 20)
	cfg.Timeout = 3 * time.Second
	r, err := drill.Run(t.Context(), cfg, p.System)
	if !errors.Is(err, drill.ErrUnsettled) || r == nil {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestADrillFindsAProcessThatEndsByItself(t *testing.T) {
	p := pretend(t)
	failing := drill.NewChild(drill.ChildConfig{Name: "inventory-relay", Env: []string{"SETTLE_TEST_ROLE=fail"}, MinWait: 50 * time.Millisecond, GiveUp: 1000})
	p.Services[1].Relay = failing
	settled := p.System.State
	p.System.State = func(ctx context.Context) (drill.State, error) {
		s, err := settled(ctx)
		if failing.Lives().Failed == 0 {
			s.Unpublished = 1
		}
		return s, err
	}
	r, err := drill.Run(t.Context(), drillConfig(t, 20), p.System)
	if err != nil {
		t.Fatal(err)
	}
	last := r.Invariants[len(r.Invariants)-1]
	if last.ID != "P1" || last.Violations == 0 || last.Checked <= last.Violations || !strings.Contains(last.Examples[0], "inventory-relay ended by itself") {
		t.Errorf("got %+v", last)
	}
}

func TestACancelledDrillEndsItsProcesses(t *testing.T) {
	p := pretend(t)
	ctx, cancel := context.WithCancel(t.Context())
	place := p.System.Place
	p.System.Place = func(ctx context.Context, r drill.Request) (string, error) { cancel(); return place(ctx, r) }
	if _, err := drill.Run(ctx, drillConfig(t, 100, drill.FaultRelayKill), p.System); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := p.Broker.Kill(0); !errors.Is(err, drill.ErrNotRunning) {
		t.Errorf("the broker still runs (%v)", err)
	}
}
