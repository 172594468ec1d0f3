package drill_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
// orders settle by themselves, all but the poisoned ones.
type pretence struct {
	drill.System
	mu       sync.Mutex
	orders   map[string]drill.Request
	poisoned int
	repaired bool
	repairs  int
	log      []settle.Record
	forget   bool // lose an order that was acknowledged
	stuck    bool // never settle
}

func pretend(t *testing.T) *pretence {
	t.Helper()
	p := &pretence{orders: map[string]drill.Request{}}
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
	p.System = drill.System{
		Broker: role("broker"), Entry: role("entry"), Proxy: proxy, Tap: p, Topic: "t", Groups: 1, AckWitness: "ack",
		Services: []drill.Member{
			{Name: "order", Relay: role("order-relay"), Consumer: role("order-consumer")},
			{Name: "inventory", Relay: role("inventory-relay"), Consumer: role("inventory-consumer")},
		},
		StandIn:  func(c *drill.Child) *drill.Child { return role(c.Name() + "-2") },
		LeaseTTL: 50 * time.Millisecond,
		Place:    p.place, State: p.state, Letters: p.letters, Repair: p.repair, Export: p.export,
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
	if _, again := p.orders[r.Key]; !again {
		p.orders[r.Key] = r
		if strings.HasPrefix(r.Key, "poison") {
			p.poisoned++
		}
		id := "e-" + r.Key
		e := &settle.Event{ID: id, AggregateType: "order", AggregateID: "o-" + r.Key, AggregateSeq: 1, Payload: []byte("{}")}
		p.log = append(p.log, settle.Record{Event: e, Raw: []byte(id), At: settle.Coordinates{Topic: "t", Offset: int64(len(p.log) + 1)}})
	}
	return "o-" + r.Key, nil
}

func (p *pretence) state(context.Context) (drill.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := drill.State{Accepted: int64(len(p.orders)), Completed: int64(len(p.orders))}
	if p.stuck {
		s.Unpublished = 1
	}
	if !p.repaired {
		s.Completed -= int64(p.poisoned)
		s.DeadOpen = int64(p.poisoned)
		if slices.ContainsFunc(p.log, func(r settle.Record) bool { return r.Event == nil }) {
			s.DeadOpen++
		}
	}
	return s, nil
}

func (p *pretence) letters(context.Context) ([]drill.Letter, error) {
	return nil, nil
}

func (p *pretence) repair(context.Context, []drill.Letter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.repaired = true
	p.repairs++
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
		insert("orders", "order_id, request_key, status, amount_cents, version, created_at, updated_at", func(r drill.Request) []any {
			return []any{"o-" + r.Key, r.Key, "RESERVED", 1, 1, 1, 2}
		}),
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
	return cfg
}

func TestEveryFaultHappensSeveralTimesWhileOrdersFlow(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 100, drill.FaultNames()...)
	var shown drill.Progress
	cfg.Show = func(p drill.Progress) { shown = p }
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Faults {
		want := 2
		switch f.Name {
		case drill.FaultDuplicate:
			want = 10 // the log is short at first
		case drill.FaultPoison:
			want = 4
		}
		if f.Times < want {
			t.Errorf("%s happened %d times; want %d", f.Name, f.Times, want)
		}
	}
	if p.repairs != 1 {
		t.Errorf("repaired %d times", p.repairs)
	}
	if len(r.Faults) != len(drill.FaultNames()) || !p.repaired || r.Orders.Accepted != 100 || r.Deliveries.Received != 1 {
		t.Errorf("report %+v", r)
	}
	if r.Events.PublishedAgain != 0 {
		t.Errorf("%d planted copies are taken for the relay's", r.Events.PublishedAgain)
	}
	if shown.Orders != 100 || shown.Shots != 20 {
		t.Errorf("progress %+v", shown)
	}
	for _, c := range []*drill.Child{p.Broker, p.Entry, p.Services[0].Relay, p.Services[1].Consumer} {
		if err := c.Kill(0); !errors.Is(err, drill.ErrNotRunning) {
			t.Errorf("%s still runs (%v)", c.Name(), err)
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
