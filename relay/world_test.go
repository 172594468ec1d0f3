package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// world drives one machine by hand: store calls run in order, publishes wait
// to be answered, time stands still unless moved.
type world struct {
	t      interface{ Fatalf(string, ...any) }
	now    time.Time
	store  *fakeStore
	broker *fakeBroker
	others map[string]*fakeBroker // by name
	cfg    Config
	m      *Machine
	calls  []Command
	pubs   []Publish
	wake   time.Time
	halted *Halt
	owners int
	log    []Command
}

func newWorld(t interface{ Fatalf(string, ...any) }, cfg Config) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0), cfg: cfg, broker: &fakeBroker{}}
	w.store = newFakeStore(func() time.Time { return w.now })
	w.others = map[string]*fakeBroker{}
	for name, b := range cfg.Brokers {
		w.others[name], _ = b.(*fakeBroker)
	}
	w.start()
	return w
}

// start replaces the machine by a new process's one.
func (w *world) start() {
	w.owners++
	w.cfg.Owner = fmt.Sprintf("process-%d", w.owners)
	w.m, w.calls, w.pubs, w.halted, w.wake = NewMachine(w.cfg), nil, nil, nil, time.Time{}
	w.step(Tick{})
}

// kill ends the process without a word; its lease has run out when the next
// one starts.
func (w *world) kill() {
	w.now = w.now.Add(w.m.cfg.LeaseTTL)
	w.start()
}

func (w *world) step(in Input) {
	w.wake = time.Time{}
	for _, c := range w.m.Step(w.now, in) {
		w.log = append(w.log, c)
		switch c := c.(type) {
		case WaitUntil:
			w.wake = c.At
		case Halt:
			w.halted = &c
		case Publish:
			w.pubs = append(w.pubs, c)
		default:
			for _, o := range w.calls {
				if kindOf(o) == kindOf(c) {
					w.t.Fatalf("%T while one is unanswered", c)
				}
			}
			w.calls = append(w.calls, c)
		}
	}
}

// call runs the next store call and feeds its answer.
func (w *world) call() {
	c := w.calls[0]
	w.calls = w.calls[1:]
	s := &session{Relay: &Relay{store: w.store, cfg: w.m.cfg, log: quiet()}}
	in, err := s.ask(context.Background(), c)
	if err != nil {
		in = Failed{Command: c, Err: err}
	}
	w.step(in)
}

// answer runs publish i and feeds its receipts.
func (w *world) answer(i int) {
	p := w.pubs[i]
	w.pubs = append(w.pubs[:i:i], w.pubs[i+1:]...)
	w.step(Published{Batch: p.Batch, Receipts: w.at(p.Broker).Publish(context.Background(), p.Messages)})
}

func (w *world) at(broker string) *fakeBroker {
	if broker == "" {
		return w.broker
	}
	return w.others[broker]
}

// callAll runs store calls until none is left or nothing but polls of an empty
// log are.
func (w *world) callAll() {
	for i := 0; len(w.calls) > 0 && w.halted == nil; i++ {
		if i > 10_000 {
			w.t.Fatalf("the machine never rests: %v", w.calls)
		}
		w.call()
	}
}

// run lets everything happen for a while of the world's time.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for i := 0; w.halted == nil; i++ {
		if i > 1_000_000 {
			w.t.Fatalf("the machine never rests")
		}
		switch {
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		case w.wake.IsZero() || w.wake.After(end):
			w.now = end
			w.step(Tick{})
			return
		default:
			w.now = laterOf(w.now, w.wake)
			w.step(Tick{})
		}
	}
}

// sent are the event ids in order of their first copies.
func (w *world) sent() string { return fmt.Sprint(w.broker.firsts()) }

func (w *world) wantSent(t *testing.T, want ...string) {
	t.Helper()
	if got := w.sent(); got != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	w.wantSound(t)
}

func (w *world) wantSound(t *testing.T) {
	t.Helper()
	for _, wrong := range w.store.wrong {
		t.Error(wrong)
	}
	w.store.wrong = nil
}

func refuseEvents(scope settle.Scope, ids ...string) func(settle.Message) error {
	return func(m settle.Message) error {
		for _, id := range ids {
			if m.Event.ID == id {
				return &settle.PublishError{Scope: scope, Err: fmt.Errorf("refused %s", id)}
			}
		}
		return nil
	}
}

func refuseTopic(scope settle.Scope, topic string) func(settle.Message) error {
	return func(m settle.Message) error {
		if m.Event.Topic == topic {
			return &settle.PublishError{Scope: scope, Err: fmt.Errorf("topic %s takes nothing", topic)}
		}
		return nil
	}
}

// control changes what people ordered.
func (s *fakeStore) control(change func(*Controls)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.controls)
	s.controls.Version++
}
