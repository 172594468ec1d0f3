package concurrent

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// DeliverToAll gives the same events to several members of two processes, as
// partitions whose owner changes are delivered to both for a while. Each must
// take effect once, those of a key in order.
func DeliverToAll(t *testing.T, open Open) {
	all := processes(t, open, 2)
	const keys, each = 5, 40
	var log []settle.Item
	for n := range each {
		for k := range keys {
			log = append(log, Item(fmt.Sprint("k", k), n+1))
		}
	}
	var wg sync.WaitGroup
	for worker := range 6 {
		p := all[worker%2]
		wg.Go(func() {
			for from := worker; from < len(log); from += 7 {
				items := log[max(0, from-10):min(from+7+worker, len(log))]
				results, err := p.Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, p.write(items))
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				if i := slices.IndexFunc(results, func(r settle.Result) bool { return !r.Verdict.Durable() }); i >= 0 {
					t.Errorf("event %s is %v", items[i].Record.Event.ID, results[i])
				}
			}
		})
	}
	wg.Wait()
	WantOnceInOrder(t, all[0].Reader, keys*each)
}

// DrainByAll lets two processes work off what waits while a third delivers more
// of the same keys. Each event must take effect once, those of a key in order.
func DrainByAll(t *testing.T, open Open) {
	all := processes(t, open, 3)
	const keys, each = 4, 15
	deliver := func(n int, fails bool) {
		for k := range keys {
			items := []settle.Item{Item(fmt.Sprint("k", k), n)}
			if fails {
				items[0] = parked(items[0])
			}
			results, err := all[0].Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, all[0].write(items))
			if err != nil || !results[0].Verdict.Durable() {
				t.Errorf("deliver: %v, %v", results, err)
			}
		}
	}
	deliver(1, true)
	var delivered atomic.Bool
	var wg sync.WaitGroup
	for _, p := range all[1:] {
		wg.Go(func() { p.drain(t, "g", func() bool { return delivered.Load() && p.count(t, waiting) == 0 }) })
	}
	for n := 2; n <= each; n++ {
		deliver(n, n%5 == 0) // parked or not, it waits behind the first as long as that is there
	}
	delivered.Store(true)
	wg.Wait()
	WantOnceInOrder(t, all[0].Reader, keys*each)
}

const waiting = `SELECT count(*) FROM t_consume_retry`

// drain works off what is due until nothing is and done says that no more will
// be. That nothing is due is not the end: another process may have it in hand.
func (p *Process) drain(t *testing.T, group string, done func() bool) {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		last := done()
		d, err := p.Inbox.Due(t.Context(), group, 20)
		if err != nil {
			t.Errorf("Due: %v", err)
			return
		}
		if len(d.Items) == 0 && last {
			return
		}
		if time.Now().After(deadline) {
			t.Error("what is due is never done")
			return
		}
		if _, err = p.Inbox.Apply(t.Context(), settle.Work{Group: group, Items: d.Items}, p.write(d.Items)); err != nil {
			t.Errorf("Apply: %v", err)
			return
		}
	}
}
