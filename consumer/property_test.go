package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
)

// behaviour is what the handler does with an event: it fails so often in this
// way, then it applies.
type behaviour struct {
	err   error
	times int
}

// world is a broker's log, a database and a machine, driven at random. It
// checks after every step what must always hold.
type world struct {
	t      *rapid.T
	cfg    Config
	rules  map[string]HandlerRule
	m      *Machine
	in     *fakeInbox
	now    time.Time
	logs   [][]*settle.Event // by partition; positions count from 1
	acts   map[string]*behaviour
	calls  map[string]int // attempts by event, unavailable ones left out
	wake   time.Time
	calm   bool // no more faults
	nextID DeliveryID

	open    map[DeliveryID]Delivered
	pending []Apply
	asked   []Command
	given   []int64 // acknowledged up to, by partition (what a broker would know)
}

var errInfra = errors.New("store is away")

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: epoch, acts: map[string]*behaviour{}, calls: map[string]int{},
		rules: map[string]HandlerRule{"t": {}, "x": {External: true}, "b": {Batch: true}},
		open:  map[DeliveryID]Delivered{},
		cfg: Config{
			Concurrency: rapid.IntRange(1, 3).Draw(t, "concurrency"),
			BatchRows:   rapid.IntRange(1, 8).Draw(t, "rows"),
			Pass:        rapid.Bool().Draw(t, "pass"),
			Retry:       settle.Backoff{Attempts: rapid.IntRange(1, 3).Draw(t, "attempts"), Base: 100 * time.Millisecond},
			Breaker:     Breaker{DistinctKeys: rapid.SampledFrom([]int{-1, 3}).Draw(t, "keys"), MaxWait: time.Second},
		},
	}
	w.in = newFakeInbox(func() time.Time { return w.now })
	w.in.each = rapid.Bool().Draw(t, "each")
	w.in.fail = func(settle.Work) error { return w.maybe(errInfra, 10) }
	w.in.lost = func() error { return w.maybe(errInfra, 20) }
	parts := rapid.IntRange(1, 3).Draw(t, "partitions")
	w.given = make([]int64, parts)
	for p := range parts {
		var log []*settle.Event
		for n := range rapid.IntRange(1, 25).Draw(t, "events") {
			e := event(fmt.Sprintf("p%dk%d-", p, rapid.IntRange(0, 3).Draw(t, "key")), n)
			e.Type = rapid.SampledFrom([]string{"t", "t", "t", "x", "b", "unknown"}).Draw(t, "type")
			log = append(log, e)
			w.acts[e.ID] = rapid.SampledFrom([]*behaviour{
				{}, {}, {}, {}, {settle.Reject("no"), 1}, {errBoom, 1}, {errBoom, 2}, {errBoom, 99},
				{settle.Permanent(errBoom), 1}, {settle.Unavailable(errBoom), 2}, {ErrHandlerTimeout, 1}, {&PanicError{}, 1},
			}).Draw(t, "act").clone()
		}
		w.logs = append(w.logs, log)
	}
	w.restart()
	return w
}

func (b *behaviour) clone() *behaviour { c := *b; return &c }

// maybe returns err once in n times while there are faults.
func (w *world) maybe(err error, n int) error {
	if !w.calm && rapid.IntRange(0, n).Draw(w.t, "fault") == n {
		return err
	}
	return nil
}

// restart is a new process: it knows nothing but the database.
func (w *world) restart() {
	w.m = NewMachine("g", w.rules, w.cfg)
	clear(w.open)
	w.pending, w.asked, w.wake = nil, nil, time.Time{}
	w.step(Tick{})
	for p := range w.logs {
		name := partName{"topic", p}
		w.in.epochs[name]++
		w.step(Claimed{settle.Claim{
			Partition: w.partition(p), Deaths: rapid.IntRange(0, 3).Draw(w.t, "deaths"),
		}})
	}
}

func (w *world) partition(p int) settle.Partition {
	return settle.Partition{Topic: "topic", Number: p, Epoch: w.in.epochs[partName{"topic", p}]}
}

func (w *world) step(in Input) {
	for _, c := range w.m.Step(w.now, in) {
		switch c := c.(type) {
		case Apply:
			w.checkDisjoint(c)
			w.pending = append(w.pending, c)
		case Complete:
			w.checkAnswer(c)
		case LoadDue, LoadControls:
			w.asked = append(w.asked, c)
		case WaitUntil:
			w.wake = c.At
		case Halt, Stopped, Forget:
			w.t.Fatalf("unexpected %T", c)
		}
	}
	w.checkBounds()
}

// handle is the business.
func (w *world) handle(e *settle.Event) error {
	b := w.acts[e.ID]
	if b.times == 0 {
		return nil
	}
	if _, no := settle.Rejected(b.err); no {
		return b.err
	}
	b.times--
	if !settle.IsUnavailable(b.err) {
		w.calls[e.ID]++
	}
	return b.err
}

func (w *world) apply(c Apply) Applied {
	var events []*settle.Event
	var batchErr error
	work := c.Work
	work.BeforeCommit = func(context.Context) error {
		defer func() { events = nil }()
		for _, e := range events {
			if batchErr = w.handle(e); batchErr != nil {
				if _, no := settle.Rejected(batchErr); !no {
					return batchErr
				}
				batchErr = nil
			}
			w.in.effects = append(w.in.effects, e.ID)
		}
		return nil
	}
	results, err := w.in.Apply(context.Background(), work, func(_ context.Context, tx *fakeTx, i int) error {
		e := work.Items[i].Record.Event
		if c.Batch != "" {
			events = append(events, e)
			return nil
		}
		err := w.handle(e)
		if _, no := settle.Rejected(err); err == nil || no {
			tx.effect(e)
		}
		return err
	})
	return Applied{ID: c.ID, Results: results, Err: err, BatchErr: batchErr}
}

func (w *world) answerOne(i int) {
	c := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	in := w.apply(c)
	w.checkEffects()
	w.step(in)
}

func (w *world) tellOne() {
	c := w.asked[0]
	w.asked = w.asked[1:]
	switch c := c.(type) {
	case LoadDue:
		due, _ := w.in.Due(context.Background(), "g", c.Limit)
		w.step(DueLoaded{due, w.maybe(errInfra, 15)})
	case LoadControls:
		cs, _ := w.in.Controls(context.Background())
		w.step(ControlsLoaded{cs, w.maybe(errInfra, 15)})
	}
}

// deliver brings the next records of a partition that has none on the way,
// sometimes with some that were acknowledged before.
func (w *world) deliver(p, n int) bool {
	for _, d := range w.open {
		if d.Partition.Number == p {
			return false
		}
	}
	from := w.in.floors[partName{"topic", p}].Position
	if from >= int64(len(w.logs[p])) {
		return false
	}
	to := min(int(from)+n, len(w.logs[p]))
	w.nextID++
	d := Delivered{w.nextID, w.partition(p), records(from+1, w.logs[p][from:to]...)}
	w.open[d.ID] = d
	w.step(d)
	return true
}

func (w *world) act() {
	switch rapid.IntRange(0, 9).Draw(w.t, "act") {
	case 0, 1, 2:
		w.deliver(rapid.IntRange(0, len(w.logs)-1).Draw(w.t, "p"), rapid.IntRange(1, 6).Draw(w.t, "n"))
	case 3, 4, 5:
		if len(w.pending) > 0 {
			w.answerOne(rapid.IntRange(0, len(w.pending)-1).Draw(w.t, "i"))
		}
	case 6:
		if len(w.asked) > 0 {
			w.tellOne()
		}
	case 7:
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(w.t, "ms")) * time.Millisecond)
		w.step(Tick{})
	case 8:
		if ids := slices.Sorted(maps.Keys(w.open)); len(ids) > 0 {
			w.step(Withdrawn{ids[0]})
		}
	case 9:
		if rapid.IntRange(0, 3).Draw(w.t, "crash") == 0 {
			if len(w.pending) > 0 && rapid.Bool().Draw(w.t, "committed") {
				w.apply(w.pending[0]) // the process dies after the commit
				w.checkEffects()
			}
			w.restart()
		}
	}
}

// settleAll lets everything come to its end without faults.
func (w *world) settleAll() {
	w.calm = true
	for range 20000 {
		switch {
		case len(w.pending) > 0:
			w.answerOne(0)
		case len(w.asked) > 0:
			w.tellOne()
		default:
			busy := false
			for p := range w.logs {
				busy = w.deliver(p, 5) || busy
			}
			if !busy {
				if w.settled() {
					return
				}
				if !w.wake.After(w.now) {
					w.now = w.now.Add(time.Second)
				} else {
					w.now = w.wake
				}
				w.step(Tick{})
			}
		}
	}
	w.t.Fatalf("not settled: rows %v, queue %d", w.in.rows, len(w.m.queue))
}

func TestAnyOrderOfEventsAndFaultsLeavesEveryEffectOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			w.act()
		}
		w.settleAll()
		w.checkEnd()
	})
}

func TestWithoutDeathsAttemptsAreThoseThatTheHandlerSaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.in.each, w.calm, w.cfg.Concurrency = false, true, 1
		w.in.lost = nil
		for p := range w.logs { // nobody died before
			w.in.epochs[partName{"topic", p}] = 1
		}
		w.m = NewMachine("g", w.rules, w.cfg)
		w.pending, w.asked = nil, nil
		w.in.fail = func(settle.Work) error { return nil }
		w.step(Tick{})
		w.settleAll()
		for _, r := range w.in.rows {
			id := r.item.Record.Event.ID
			if r.item.Record.Event.Type != "b" && r.item.Attempt != w.calls[id] {
				t.Fatalf("%s has %d attempts on record, the handler saw %d", id, r.item.Attempt, w.calls[id])
			}
		}
	})
}
