package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
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
	"github.com/settlemq/settle/store/mysql"
)

var seeds = flag.Int("inbox-seeds", 1, "how many random histories TestRandomHistoriesSettle plays")

// TestRandomHistoriesSettle plays a consumer that is unlucky in every way: it
// delivers twice, loses acknowledgements, fails, parks, dies, and is repaired
// by people, while another process drains what waits; then all luck turns. Each
// event must have had one effect (or have been discarded), and the effects of a
// key must be in order.
func TestRandomHistoriesSettle(t *testing.T) {
	at := mysql.DatabaseForTest(t)
	s, other := mysql.OpenForTest(t, at, mysql.Config{MaxConns: 4}), mysql.OpenForTest(t, at, mysql.Config{MaxConns: 4})
	ctx := t.Context()
	if _, err := s.DB().ExecContext(ctx, `CREATE TABLE t_effect (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, grp VARCHAR(191), row_id VARCHAR(191))`); err != nil {
		t.Fatal(err)
	}
	for seed := range *seeds {
		for _, kind := range []string{"block", "pass", "ordered"} {
			h := &history{T: t, s: s, rng: rand.New(rand.NewPCG(uint64(seed), 1)), name: fmt.Sprintf("%s-%d", kind, seed)}
			h.work = settle.Work{Group: h.name, Pass: kind == "pass", OrderedBySeq: kind == "ordered", GapTimeout: time.Hour}
			h.play(ctx, other)
			if t.Failed() {
				t.Fatalf("history %s: run with -inbox-seeds %d", h.name, seed+1)
			}
		}
	}
}

// history is one group's life.
type history struct {
	*testing.T
	s         *mysql.Store
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
	now := time.Now()
	e := &settle.Event{ID: fmt.Sprintf("%s-k%d-%03d", h.name, key, n), Type: "x", AggregateType: "o", AggregateID: fmt.Sprintf("%s-k%d", h.name, key),
		AggregateSeq: int64(n), AppendedAt: now, OccurredAt: now, Payload: []byte("{}")}
	return settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: settle.AppendEnvelope(nil, e), Key: e.AggregateID, Position: int64(n)}}
}

func (h *history) play(ctx context.Context, other *mysql.Store) {
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
	rival := &history{T: h.T, s: other, rng: rand.New(rand.NewPCG(h.rng.Uint64(), 2)), name: h.name, work: h.work}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() && !h.Failed() {
			rival.drain(ctx)
		}
	})
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
	stop.Store(true)
	wg.Wait()
	if err := other.Inbox().Release(ctx, h.name, "rival"); err != nil { // what it has been given and not done
		h.Fatal(err)
	}
	h.calm = true
	for range 200 {
		h.repair(ctx)
		if !h.drain(ctx) && h.open(ctx) == 0 {
			break
		}
	}
	h.check(ctx)
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
		results, err := h.s.Inbox().Apply(ctx, w, func(ctx context.Context, tx *sql.Tx, i int) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO t_effect (grp, row_id) VALUES (?, ?)`, h.name, items[i].Record.Event.ID); err != nil {
				return err
			}
			if !h.calm && h.rng.IntN(6) == 0 {
				return errors.New("unlucky")
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
	d, err := h.s.Inbox().Due(ctx, h.name, 1+h.rng.IntN(20))
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
	letters, err := h.s.Governance().DeadLetters(ctx, govern.Filter{Group: h.name})
	if err != nil {
		h.Fatal(err)
	}
	return len(letters)
}

func (h *history) repair(ctx context.Context) {
	g := h.s.Governance()
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
	rows, err := h.s.Reader().QueryContext(ctx, `SELECT row_id FROM t_effect WHERE grp = ? ORDER BY id`, h.name)
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	seen, last := map[string]bool{}, map[string]string{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			h.Fatal(err)
		}
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
	for name, query := range map[string]string{
		"rows wait":           `SELECT count(*) FROM t_consume_retry WHERE consumer_group = ?`,
		"log rows are open":   `SELECT count(*) FROM t_message_consume_log WHERE consumer_group = ? AND status NOT IN ('APPLIED', 'DISCARDED')`,
		"letters are open":    `SELECT count(*) FROM t_dead_letter WHERE consumer_group = ? AND closed_at IS NULL`,
		"effects are unequal": `SELECT (SELECT count(*) FROM t_message_consume_log l WHERE l.consumer_group = g.name AND l.status = 'APPLIED') - (SELECT count(*) FROM t_effect e WHERE e.grp = g.name) FROM (SELECT ? AS name) g`,
	} {
		var n int
		if err := h.s.Reader().QueryRowContext(ctx, query, h.name).Scan(&n); err != nil || n != 0 {
			h.Errorf("in the end %d %s (%v)", n, name, err)
		}
	}
}
