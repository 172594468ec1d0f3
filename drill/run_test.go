package drill_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/drill"
)

// pretence is a system whose processes are real and do nothing, and whose
// orders settle by themselves. Poisoned ones make a dead letter, and so do those
// of customers for whom the coupon system hangs.
type pretence struct {
	drill.System
	mu      sync.Mutex
	orders  map[string]drill.Request
	letters []drill.Letter // open
	made    int            // letters
	repairs [][]drill.Letter
	hangs   []string // customers for whom the coupon system hangs
	counts  map[string]map[string]int64
	told    []drill.Misbehaviour
	acts    []string
	log     []settle.Record
	forget  bool // lose an order that was acknowledged
	stuck   bool // never settle
	again   bool // what is repaired dies again
}

func pretend(t *testing.T) *pretence {
	t.Helper()
	p := &pretence{orders: map[string]drill.Request{}, counts: map[string]map[string]int64{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go answerAll(ln)
	proxy, err := drill.OpenProxy("127.0.0.1:0", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	talk, hush := context.WithCancel(context.Background())
	var talker sync.WaitGroup
	t.Cleanup(func() { hush(); talker.Wait() })
	talker.Go(func() { chatter(talk, proxy.Addr()) })
	dir := t.TempDir()
	role := func(name string) *drill.Child {
		log := filepath.Join(dir, name)
		return drill.NewChild(drill.ChildConfig{
			Name: name, Env: []string{"SETTLE_TEST_ROLE=serve"}, Log: log, MinWait: time.Millisecond,
			Ready: func(context.Context) error {
				if all := pids(log); len(all) == 0 || !alive(all[len(all)-1]) {
					return errors.New("not up")
				}
				return nil
			},
		})
	}
	both := role("marketing")
	p.System = drill.System{
		Broker: role("broker"), Entry: role("entry"), Proxy: proxy, Tap: p, Topic: "t", Groups: 1, AckWitness: "ack",
		Services: []drill.Member{
			{Name: "order", Relay: role("order-relay"), Consumer: role("order-consumer")},
			{Name: "inventory", Relay: role("inventory-relay"), Consumer: role("inventory-consumer")},
			{Name: "marketing", Relay: both, Consumer: both},
		},
		Outside:  []*drill.Child{role(drill.Provider), role(drill.Coupons), role(drill.Carrier)},
		StandIn:  func(c *drill.Child) *drill.Child { return role(c.Name() + "-2") },
		LeaseTTL: 50 * time.Millisecond,
		Place:    p.place, Act: p.act, Misbehave: p.misbehave, Misbehaved: p.misbehaved,
		State: p.state, Letters: p.open, Repair: p.repair, Export: p.export,
		Counters: func() (drill.Counters, error) { return drill.Counters{Received: 1, Duplicate: 2, Ignored: 3}, nil },
	}
	return p
}

func answerAll(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			for in := bufio.NewScanner(c); in.Scan(); {
				if _, err := io.WriteString(c, "ack\n"); err != nil {
					return
				}
			}
		}()
	}
}

// chatter keeps a connection through the proxy busy.
func chatter(ctx context.Context, addr string) {
	for ctx.Err() == nil {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		for err == nil && ctx.Err() == nil {
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			if _, err = io.WriteString(c, "publish\n"); err == nil {
				_, _ = c.Read(make([]byte, 100))
			}
		}
		if c != nil {
			_ = c.Close()
		}
		time.Sleep(5 * time.Millisecond) // as clients do: a storm of connections would starve itself
	}
}

func (p *pretence) place(_ context.Context, r drill.Request) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Refused {
		return "", fmt.Errorf("too risky: %w", drill.ErrRefused)
	}
	if _, again := p.orders[r.Key]; !again {
		p.orders[r.Key] = r
		if strings.HasPrefix(r.Key, "poison") {
			p.dies("inventory", "o-"+r.Key)
		}
		if slices.Contains(p.hangs, r.CustomerID) {
			p.counts[drill.Coupons][drill.ModeHang]++
			p.dies("marketing", "o-"+r.Key)
		}
		id := "e-" + r.Key
		e := &settle.Event{ID: id, AggregateType: "order", AggregateID: "o-" + r.Key, AggregateSeq: 1, Payload: []byte("{}")}
		p.log = append(p.log, settle.Record{Event: e, Raw: []byte(id), At: settle.Coordinates{Topic: "t", Offset: int64(len(p.log) + 1)}})
	}
	return "o-" + r.Key, nil
}

// dies makes a dead letter.
func (p *pretence) dies(service, key string) {
	p.made++
	p.letters = append(p.letters, drill.Letter{ID: fmt.Sprintf("%s:%d", service, p.made), Service: service, Key: key})
}

func (p *pretence) act(_ context.Context, kind, orderID string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acts = append(p.acts, kind+" "+orderID)
	return true, nil
}

// misbehave does each misbehaviour once, at once; one that is for some
// customers happens to them.
func (p *pretence) misbehave(_ context.Context, system string, m drill.Misbehaviour) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[system] == nil {
		p.counts[system] = map[string]int64{}
	}
	p.told = append(p.told, m)
	switch {
	case m.Mode == drill.ModeOK:
		p.hangs = nil
	case len(m.Customers) > 0:
		p.hangs = m.Customers
	default:
		p.counts[system][m.Mode]++
	}
	return nil
}

func (p *pretence) misbehaved(_ context.Context, system string) (map[string]int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts[system]), nil
}

func (p *pretence) state(context.Context) (drill.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := drill.State{Accepted: int64(len(p.orders)), Completed: int64(len(p.orders)), DeadOpen: int64(len(p.letters))}
	for _, l := range p.letters {
		if strings.HasPrefix(l.Key, "o-poison") {
			s.Completed--
		}
	}
	if p.stuck {
		s.Unpublished = 1
	}
	return s, nil
}

func (p *pretence) open(context.Context) ([]drill.Letter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.letters), nil
}

func (p *pretence) repair(_ context.Context, letters []drill.Letter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hangs) > 0 {
		return errors.New("the coupon system hangs still")
	}
	p.repairs = append(p.repairs, letters)
	if !p.again {
		p.letters = slices.DeleteFunc(p.letters, func(l drill.Letter) bool { return slices.Contains(letters, l) })
	}
	return nil
}

func (p *pretence) Bounds(context.Context, string) (int64, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1, int64(len(p.log)), nil
}

func (p *pretence) ReadLog(_ context.Context, _ string, from, to int64, visit func(settle.Record) error) error {
	p.mu.Lock()
	log := slices.Clone(p.log[from-1 : to])
	p.mu.Unlock()
	for _, r := range log {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

func (p *pretence) Plant(_ context.Context, _ string, _ int, _ string, _ map[string]string, value []byte) (settle.Coordinates, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec := settle.Record{Raw: value, At: settle.Coordinates{Topic: "t", Offset: int64(len(p.log) + 1)}}
	if i := slices.IndexFunc(p.log, func(have settle.Record) bool { return string(have.Raw) == string(value) }); i >= 0 {
		rec.Event = p.log[i].Event
	} else {
		p.dies("inventory", "")
	}
	p.log = append(p.log, rec)
	return rec.At, nil
}

func (p *pretence) export(ctx context.Context, f *drill.Facts) error {
	insert := func(table, cols string, row func(r drill.Request) []any) error {
		return f.Insert(ctx, table, strings.Split(cols, ", "), func(yield func([]any) bool) {
			for _, r := range p.orders {
				if !yield(row(r)) {
					return
				}
			}
		}, nil)
	}
	if p.forget {
		for key := range p.orders {
			delete(p.orders, key)
			break
		}
	}
	return errors.Join(
		insert("orders", "order_id, request_key, customer_id, status, amount_cents, pay, version, created_at, updated_at", func(r drill.Request) []any {
			return []any{"o-" + r.Key, r.Key, r.CustomerID, "COMPLETED", r.Amount, "now", 1, 1, 2}
		}),
		f.Insert(ctx, "dead_letter", []string{"id", "service", "consumer", "event_id", "event_type", "aggregate_id", "class", "reason", "attempts", "state", "opened_at", "due_at"}, func(yield func([]any) bool) {
			for i, l := range p.letters {
				if !yield([]any{i, l.Service, l.Service, "e", "order.paid", l.Key, "handler_error", "hangs", 4, "OPEN", 1, 2}) {
					return
				}
			}
		}, nil),
		insert("order_items", "order_id, sku, qty", func(r drill.Request) []any { return []any{"o-" + r.Key, "a", 1} }),
	)
}

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
	cfg.Timeout = 500 * time.Millisecond
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
