package concurrent

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// Histories plays consumers that are unlucky in every way, three for each seed:
// they deliver twice, lose acknowledgements, fail, park, die, and are repaired by
// people, while another process, if there are two, drains what waits; then all
// luck turns. Each event must have had one effect (or have been discarded), and
// the effects of a key must be in order.
func Histories(t *testing.T, open Open, of, seeds int) {
	all := processes(t, open, of)
	for seed := range seeds {
		for _, kind := range []string{"block", "pass", "ordered"} {
			h := &history{T: t, p: all[0], rng: rand.New(rand.NewPCG(uint64(seed), 1)), name: fmt.Sprintf("%s-%d", kind, seed)}
			h.work = settle.Work{Group: h.name, Pass: kind == "pass", OrderedBySeq: kind == "ordered", GapTimeout: time.Hour}
			h.play(t.Context(), all[1:])
			if t.Failed() {
				t.Fatalf("history %s, of seed %d", h.name, seed)
			}
		}
	}
}

// history is one group's life.
type history struct {
	*testing.T
	p         Process
	rng       *rand.Rand
	name      string
	work      settle.Work
	calm      bool // nothing fails any more
	discarded map[string]bool
}

const (
	historyKeys   = 4
	historyEvents = 12 // of each key
)

func (h *history) event(key, n int) settle.Item {
	return Item(fmt.Sprintf("%s-k%d", h.name, key), n)
}

func (h *history) play(ctx context.Context, others []Process) {
	h.discarded = map[string]bool{}
	next := [historyKeys]int{}
	var log []settle.Item // the partition, in order
	for len(log) < historyKeys*historyEvents {
		k := h.rng.IntN(historyKeys)
		if next[k] < historyEvents {
			next[k]++
			log = append(log, h.event(k, next[k]))
		}
	}
	end := h.beside(ctx, others)
	for floor := 0; floor < len(log) && !h.Failed(); {
		n := min(1+h.rng.IntN(8), len(log)-floor)
		if h.apply(ctx, log[floor:floor+n]) && h.rng.IntN(4) > 0 {
			floor += n // else the acknowledgement is lost
		}
		if h.rng.IntN(2) == 0 {
			h.drain(ctx)
		}
		if h.rng.IntN(4) == 0 {
			h.repair(ctx)
		}
	}
	end()
	h.calm = true
	for range 200 {
		h.repair(ctx)
		if !h.drain(ctx) && h.open(ctx) == 0 {
			break
		}
	}
	h.check(ctx)
}

// beside lets other processes drain what waits until end is called.
func (h *history) beside(ctx context.Context, others []Process) (end func()) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for _, p := range others {
		rival := &history{T: h.T, p: p, rng: rand.New(rand.NewPCG(h.rng.Uint64(), 2)), name: h.name, work: h.work}
		wg.Go(func() {
			for !stop.Load() && !h.Failed() {
				rival.drain(ctx)
			}
		})
	}
	return func() {
		stop.Store(true)
		wg.Wait()
		for _, p := range others { // what it has been given and not done
			if err := p.Inbox.Release(ctx, h.name, "rival"); err != nil {
				h.Fatal(err)
			}
		}
	}
}

// apply delivers items until each has a durable verdict, as a consumer does:
// what failed is parked or dies in the next try.
func (h *history) apply(ctx context.Context, batch []settle.Item) bool {
	items := slices.Clone(batch)
	for i := range items {
		items[i].Intent = settle.IntentHandle
	}
	for range len(items) + 1 {
		w := h.work
		w.Items = items
		results, err := h.p.Inbox.Apply(ctx, w, func(ctx context.Context, tx *sql.Tx, i int) error {
			if err := h.p.WriteEffect(ctx, tx, items[i].Record.Event.ID); err != nil {
				return err
			}
			if !h.calm && h.rng.IntN(6) == 0 {
				return errUnlucky
			}
			return nil
		})
		if err != nil {
			h.Errorf("history %s: Apply: %v", h.name, err)
			return false
		}
		at := slices.IndexFunc(results, func(r settle.Result) bool { return r.Verdict == settle.VerdictFailed })
		if at < 0 {
			return true
		}
		it := &items[at]
		it.Attempt++
		it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "unlucky"
		if h.rng.IntN(3) == 0 {
			it.Intent = settle.IntentDie
		}
	}
	h.Errorf("history %s: a batch never ends", h.name)
	return false
}

func (h *history) drain(ctx context.Context) bool {
	d, err := h.p.Inbox.Due(ctx, h.name, 1+h.rng.IntN(20))
	if err != nil {
		h.Errorf("history %s: Due: %v", h.name, err)
		return false
	}
	if len(d.Items) > 0 {
		h.apply(ctx, d.Items)
	}
	return len(d.Items) > 0
}

func (h *history) open(ctx context.Context) int {
	letters, err := h.p.Governance.DeadLetters(ctx, govern.Filter{Group: h.name})
	if err != nil {
		h.Fatal(err)
	}
	return len(letters)
}

func (h *history) repair(ctx context.Context) {
	g := h.p.Governance
	letters, err := g.DeadLetters(ctx, govern.Filter{Group: h.name})
	if err != nil {
		h.Fatal(err)
	}
	for _, d := range letters {
		act := govern.Act{By: "ann", Reason: "luck"}
		switch h.rng.IntN(4) {
		case 0:
			if out, err := g.Discard(ctx, act, d.ID); err != nil || out[0].Result != "done" {
				h.Fatalf("history %s: Discard: %v %v", h.name, out, err)
			}
			h.discarded[d.EventID] = true
		default:
			if out, err := g.Replay(ctx, act, govern.ReplayOptions{}, d.ID); err != nil || out[0].Result != "done" {
				h.Fatalf("history %s: Replay: %v %v", h.name, out, err)
			}
		}
	}
}

func (h *history) check(ctx context.Context) {
	rows, err := Effects(ctx, h.p.Reader)
	if err != nil {
		h.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(id string) bool { return !strings.HasPrefix(id, h.name+"-k") })
	seen, last := map[string]bool{}, map[string]string{}
	for _, id := range rows {
		key := id[:strings.LastIndex(id, "-")]
		switch {
		case seen[id]:
			h.Errorf("event %s took effect twice", id)
		case h.discarded[id]:
			h.Errorf("event %s was discarded and took effect", id)
		case !h.work.Pass && id < last[key]:
			h.Errorf("event %s took effect after %s", id, last[key])
		}
		seen[id], last[key] = true, id
	}
	for k := range historyKeys {
		for n := 1; n <= historyEvents; n++ {
			if id := h.event(k, n).Record.Event.ID; !seen[id] && !h.discarded[id] {
				h.Errorf("event %s never settled", id)
			}
		}
	}
	for _, c := range []struct {
		query string
		want  int
	}{
		{`SELECT count(*) FROM t_consume_retry WHERE consumer_group = ?`, 0},
		{`SELECT count(*) FROM t_message_consume_log WHERE consumer_group = ? AND status NOT IN ('APPLIED', 'DISCARDED')`, 0},
		{`SELECT count(*) FROM t_dead_letter WHERE consumer_group = ? AND closed_at IS NULL`, 0},
		{`SELECT count(*) FROM t_message_consume_log WHERE consumer_group = ? AND status = 'APPLIED'`, len(rows)},
	} {
		if n := h.p.count(h.T, c.query, h.name); n != c.want {
			h.Errorf("in the end %d, not %d: %s", n, c.want, c.query)
		}
	}
}
