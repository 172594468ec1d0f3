package broken

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/storetest"
)

// RunLanes gives each rule of lanes a store that breaks it. open returns a
// sound, empty store for each.
func RunLanes(t *testing.T, open func(t testing.TB) storetest.OutboxStore[*sql.Tx]) {
	stores := brokenLanes()
	for _, c := range storetest.LaneCases[*sql.Tx]() {
		breaks, ok := stores[c.Name]
		delete(stores, c.Name)
		run(t, c.Name, ok, func(t testing.TB) func(testing.TB) {
			s := breaks(open(t))
			return func(t testing.TB) { c.Run(t, s) }
		})
	}
	for name := range stores {
		t.Errorf("there is no rule %q to break", name)
	}
	t.Run("a store that breaks nothing keeps every rule", func(t *testing.T) {
		for _, c := range storetest.LaneCases[*sql.Tx]() {
			c.Run(t, laned(func(*brokenLane) {})(open(t)))
		}
	})
}

// brokenLane is a store of lanes of which some calls are changed.
type brokenLane struct {
	brokenLog
	controls func(c *relay.Controls)
	// sides, if set, is another's store in whose place side tables are read.
	sides relay.Store
}

func (b *brokenLane) Lanes(ctx context.Context, crew string, ttl time.Duration) ([]relay.Lane, int, error) {
	return b.Store.(relay.Lanes).Lanes(ctx, crew, ttl)
}

func (b *brokenLane) Backlog(ctx context.Context, limit int) (relay.Backlog, error) {
	return b.Store.(relay.Gauge).Backlog(ctx, limit)
}

func (b *brokenLane) Controls(ctx context.Context) (relay.Controls, error) {
	c, err := b.Store.Controls(ctx)
	if b.controls != nil {
		b.controls(&c)
	}
	return c, err
}

func (b *brokenLane) Side(ctx context.Context, q relay.SideQuery) (relay.SidePage, error) {
	if b.sides != nil {
		return b.sides.Side(ctx, q)
	}
	return b.brokenLog.Side(ctx, q)
}

// laned breaks the stores of all lanes.
func laned(change func(b *brokenLane)) breaking {
	return func(s outboxStore) outboxStore {
		one, other := &brokenLane{brokenLog: brokenLog{Store: s.Store}}, &brokenLane{brokenLog: brokenLog{Store: s.Standby}}
		change(one)
		change(other)
		s.Store, s.Standby = one, other
		return s
	}
}

func brokenLanes() map[string]breaking {
	lead := func(change func(*relay.Lease)) breaking {
		return laned(func(b *brokenLane) {
			b.lead = func(l relay.Lease) relay.Lease {
				change(&l)
				return l
			}
		})
	}
	commit := func(change func(f *relay.Flush)) breaking {
		return laned(func(b *brokenLane) {
			b.commit = func(ctx context.Context, l relay.Lease, f relay.Flush) error {
				change(&f)
				return b.Store.Commit(ctx, l, f)
			}
		})
	}
	return map[string]breaking{
		"a change of the number of lanes is told to those that read":          laned(func(b *brokenLane) { b.controls = func(c *relay.Controls) { c.Divided = false } }),
		"a lane begins when all before it have ended, and not earlier":        lead(func(l *relay.Lease) { l.Held, l.Early = true, false }),
		"a lane that has ended is never led again":                            lead(func(l *relay.Lease) { l.Held, l.Ended = true, false }),
		"a lane sees every id, and the events of its own keys only":           laned(onlyOwn),
		"a page of a lane is bounded by its own rows and says that it is cut": laned(func(b *brokenLane) { b.page = func(p *relay.Page) { p.Complete = true } }),
		"what was not done when lanes ended is open for those that follow, and what was done is not": laned(func(b *brokenLane) {
			b.load = func(st *relay.State) {
				for i := range st.Checkpoint.Readers {
					st.Checkpoint.Readers[i].Open = nil
				}
			}
		}),
		"a lane finds parked, delayed and late rows of its own keys only": func(s outboxStore) outboxStore {
			first := s.Store
			return laned(func(b *brokenLane) { b.sides = first })(s)
		},
		"an event is sent when the lane of its key says so": func(s outboxStore) outboxStore {
			s.Status = func(context.Context, string) (string, error) { return "SENT", nil }
			return s
		},
		"nothing is deleted that another lane has not seen": commit(func(f *relay.Flush) {
			f.Checkpoint.Readers = []relay.Reader{{Cursor: 4}}
		}),
		"an id that one lane has given up is late for the lane of its key, unless that has dealt with it": commit(func(f *relay.Flush) { f.Sent = nil }),
	}
}

// onlyOwn hides the rows of other lanes, whose ids are holes then.
func onlyOwn(b *brokenLane) {
	b.page = func(p *relay.Page) {
		own := p.Rows[:0]
		for _, r := range p.Rows {
			if !r.Elsewhere {
				own = append(own, r)
			}
		}
		p.Rows = own
	}
}
