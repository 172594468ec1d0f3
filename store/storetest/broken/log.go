package broken

import (
	"context"
	"time"

	"github.com/settlemq/settle/relay"
)

// brokenLog is a relay's store of which some calls are changed.
type brokenLog struct {
	relay.Store
	query  func(q *relay.PollQuery)
	page   func(p *relay.Page)
	load   func(st *relay.State)
	lead   func(l relay.Lease) relay.Lease
	lease  func(l relay.Lease) relay.Lease
	resign bool // does nothing
	owners func(e *relay.Evidence)
	commit func(ctx context.Context, l relay.Lease, f relay.Flush) error
	ask    func(q *relay.SideQuery)
	side   func(p *relay.SidePage)
	retain func(before *time.Time, limit *int)
}

// logged breaks the leader's store, and only that.
func logged(change func(b *brokenLog)) breaking {
	return func(s outboxStore) outboxStore {
		b := &brokenLog{Store: s.Store}
		change(b)
		s.Store = b
		return s
	}
}

func rowsOf(change func(*relay.Row)) breaking {
	return logged(func(b *brokenLog) {
		b.page = func(p *relay.Page) {
			for i := range p.Rows {
				change(&p.Rows[i])
			}
		}
	})
}

func committed(change func(f *relay.Flush)) breaking {
	return logged(func(b *brokenLog) {
		b.commit = func(ctx context.Context, l relay.Lease, f relay.Flush) error {
			change(&f)
			return b.Store.Commit(ctx, l, f)
		}
	})
}

func (b *brokenLog) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	if b.query != nil {
		b.query(&q)
	}
	p, err := b.Store.Poll(ctx, q)
	if b.page != nil {
		b.page(&p)
	}
	return p, err
}

func (b *brokenLog) Load(ctx context.Context, l relay.Lease) (relay.State, error) {
	st, err := b.Store.Load(ctx, b.leased(l))
	if b.load != nil {
		b.load(&st)
	}
	return st, err
}

func (b *brokenLog) leased(l relay.Lease) relay.Lease {
	if b.lease == nil {
		return l
	}
	return b.lease(l)
}

func (b *brokenLog) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	l, err := b.Store.Lead(ctx, owner, lane, ttl)
	if b.lead != nil {
		l = b.lead(l)
	}
	return l, err
}

func (b *brokenLog) Resign(ctx context.Context, l relay.Lease) error {
	if b.resign {
		return nil
	}
	return b.Store.Resign(ctx, b.leased(l))
}

func (b *brokenLog) Owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	e, err := b.Store.Owners(ctx, before)
	if b.owners != nil {
		b.owners(&e)
	}
	return e, err
}

func (b *brokenLog) Commit(ctx context.Context, l relay.Lease, f relay.Flush) error {
	if b.commit != nil {
		return b.commit(ctx, l, f)
	}
	return b.Store.Commit(ctx, b.leased(l), f)
}

func (b *brokenLog) Side(ctx context.Context, q relay.SideQuery) (relay.SidePage, error) {
	if b.ask != nil {
		b.ask(&q)
	}
	p, err := b.Store.Side(ctx, q)
	if b.side != nil {
		b.side(&p)
	}
	return p, err
}

func (b *brokenLog) Sweep(ctx context.Context, l relay.Lease, limit int) (int, error) {
	return b.Store.Sweep(ctx, b.leased(l), limit)
}

func (b *brokenLog) Retain(ctx context.Context, l relay.Lease, before time.Time, limit int) (int, error) {
	if b.retain != nil {
		b.retain(&before, &limit)
	}
	return b.Store.Retain(ctx, b.leased(l), before, limit)
}

// remembers returns the first lease for ever, as if it were renewed.
func remembers(b *brokenLog) {
	var first relay.Lease
	b.lead = func(l relay.Lease) relay.Lease {
		if !first.Held {
			first = l
			return l
		}
		first.Expires = first.Expires.Add(time.Second)
		return first
	}
}

// deaf is a store whose renewals never reach the database.
type deaf struct {
	brokenLog
	first relay.Lease
}

func (d *deaf) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	if d.first.Held {
		d.first.Expires = d.first.Expires.Add(time.Second)
		return d.first, nil
	}
	l, err := d.Store.Lead(ctx, owner, lane, ttl)
	d.first = l
	return l, err
}

// unfenced writes with whatever lease is the newest.
func unfenced(s outboxStore) outboxStore {
	var newest relay.Lease
	wrap := func(of relay.Store) relay.Store {
		b := &brokenLog{Store: of}
		b.lead = func(l relay.Lease) relay.Lease {
			if l.Held {
				newest = l
			}
			return l
		}
		b.lease = func(relay.Lease) relay.Lease { return newest }
		return b
	}
	s.Store, s.Standby = wrap(s.Store), wrap(s.Standby)
	return s
}
