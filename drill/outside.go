package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// marketing is the service that asks the coupon system.
const marketing = "marketing"

// scheduled are the faults that are fired now and then. The coupon system
// hangs for some customers all the time, until a person repairs.
func scheduled(faults []string) []string {
	return slices.DeleteFunc(slices.Clone(faults), func(name string) bool { return name == FaultCouponStuck })
}

// outsider is the process of an outside system; nil if there is none.
func (r *run) outsider(system string) *Child {
	i := slices.IndexFunc(r.sys.Outside, func(c *Child) bool { return c.Name() == system })
	if i < 0 {
		return nil
	}
	return r.sys.Outside[i]
}

// misbehaveTries is how often a system is to do wrong until somebody asks it:
// on a busy machine orders come to the carrier late, and in bursts.
const misbehaveTries = 12

// misbehave lets an outside system do something wrong for a while, again while
// nobody has asked it, and returns how often it says that it did.
func (r *run) misbehave(ctx context.Context, system string, m Misbehaviour) (int, error) {
	defer r.locks.hold(r.outsider(system))()
	before, err := r.misbehaved(ctx, system, m.Mode)
	if err != nil {
		return 0, retryable(err)
	}
	for range misbehaveTries {
		if err := r.sys.Misbehave(ctx, system, m); err != nil {
			return 0, retryable(err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(m.For):
		}
		now, err := r.misbehaved(ctx, system, m.Mode)
		if err != nil || now > before {
			return int(now - before), err
		}
	}
	return 0, fmt.Errorf("nobody asked the %s", system)
}

func (r *run) misbehaved(ctx context.Context, system, mode string) (int64, error) {
	counts, err := r.sys.Misbehaved(ctx, system)
	if err != nil {
		return 0, fmt.Errorf("ask the %s what it did: %w", system, err)
	}
	return counts[mode], nil
}

// killOutside kills an outside system's process; not that of the coupon system
// while it hangs for some customers, which it would forget.
func (r *run) killOutside(n uint64) (int, error) {
	all := slices.DeleteFunc(slices.Clone(r.sys.Outside), func(c *Child) bool { return r.isStuck() && c.Name() == Coupons })
	if len(all) == 0 {
		return 0, errors.New("there is no outside system to kill")
	}
	return r.kill(all[n%uint64(len(all))])
}

func (r *run) isStuck() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stuck
}

// stick lets the coupon system hang for some customers.
func (r *run) stick(ctx context.Context) error {
	if !slices.Contains(r.cfg.Faults, FaultCouponStuck) || len(r.cfg.Stuck) == 0 {
		return nil // the report says that it never happened
	}
	r.mu.Lock()
	r.stuck = true
	r.mu.Unlock()
	return r.sys.Misbehave(ctx, Coupons, Misbehaviour{Mode: ModeHang, Customers: r.cfg.Stuck})
}

// unstick lets it answer again for everybody, as its own people would, and
// counts the dead letters that its hanging made: never more than it says that
// it hung.
func (r *run) unstick(ctx context.Context) error {
	if !r.isStuck() {
		return nil
	}
	letters, err := r.sys.Letters(ctx)
	if err != nil {
		return err
	}
	if err := r.sys.Misbehave(ctx, Coupons, Misbehaviour{Mode: ModeOK}); err != nil {
		return err
	}
	n, err := r.misbehaved(ctx, Coupons, ModeHang)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.stuck = false
	r.mu.Unlock()
	r.count(FaultCouponStuck, min(int(n), len(r.ofStuck(letters))))
	r.mark(FaultCouponStuck, r.fed)
	r.cfg.Say("The coupon system answers everybody again.")
	return nil
}

// ofStuck returns the letters of orders for whose customers the coupon system
// hung.
func (r *run) ofStuck(letters []Letter) []Letter {
	stuck := map[string]bool{}
	for _, req := range r.cfg.Requests {
		if slices.Contains(r.cfg.Stuck, req.CustomerID) {
			stuck[req.Key] = true
		}
	}
	orders := map[string]bool{}
	for _, a := range r.feed.Answers() {
		if stuck[a.Key] {
			orders[a.OrderID] = true
		}
	}
	var theirs []Letter
	for _, l := range letters {
		if l.Service == marketing && orders[l.Key] {
			theirs = append(theirs, l)
		}
	}
	return theirs
}
