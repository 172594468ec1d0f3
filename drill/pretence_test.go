package drill_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
	proxy, err := drill.OpenProxy(drill.ProxyConfig{Target: ln.Addr().String(), Witness: func() drill.Witness { return &drill.TextWitness{Text: "ack"} }})
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
		Broker: role("broker"), Entry: role("entry"), Proxy: proxy, Tap: p, Topic: "t", Groups: 1,
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

func (p *pretence) ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error {
	return p.ReadSome(ctx, topic, 0, math.MaxInt, visit)
}

func (p *pretence) ReadSome(_ context.Context, _ string, place float64, n int, visit func(settle.Record) error) error {
	p.mu.Lock()
	log := slices.Clone(p.log[int(place*float64(len(p.log))):])
	p.mu.Unlock()
	for _, r := range log[:min(n, len(log))] {
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
