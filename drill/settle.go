package drill

import (
	"context"
	"slices"
	"time"
)

// maxRepairs is how many times a person tries to repair.
const maxRepairs = 10

// settle waits until nothing is left to do, and repairs whatever only a person
// can: the poison, orders for which the coupon system hung, and an event whose
// process was killed each time it was in hand, until it looked like the killer.
func (r *run) settle(ctx context.Context) error {
	poison := r.poison() // must show before the first repair
	for range maxRepairs {
		r.enter("settling")
		var last State
		err := r.await(ctx, func(s State) bool {
			last = s
			return s.Settled(r.cfg.Leave) && poison == 0 || s.Blocked(r.cfg.Leave) && s.DeadOpen >= int64(poison)
		})
		if err != nil || last.Settled(r.cfg.Leave) {
			return err
		}
		r.enter("repairing")
		if err := r.repair(ctx, poison); err != nil {
			return err
		}
		poison = 0
	}
	r.cfg.Say("Dead letters come again however often they are repaired.")
	return ErrUnsettled
}

// poison is how many dead letters the poison makes: one for each order, and
// each group finds each foreign record.
func (r *run) poison() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.cfg.Poisoned
	for _, p := range r.planted {
		if p.kind == "foreign" {
			n += r.sys.Groups
		}
	}
	return n
}

// repair decides about all dead letters but for those that are left on
// purpose.
func (r *run) repair(ctx context.Context, poison int) error {
	began := time.Now()
	letters, err := r.sys.Letters(ctx)
	if err != nil {
		return err
	}
	if err := r.unstick(ctx); err != nil {
		return err
	}
	leave := r.ofStuck(letters)
	leave = leave[:min(len(leave), r.cfg.Leave)]
	todo := slices.DeleteFunc(letters, func(l Letter) bool { return slices.Contains(leave, l) })
	r.cfg.Say("A person has to decide about %s.", times(len(todo), "dead letter"))
	if err := r.sys.Repair(ctx, todo); err != nil {
		return err
	}
	r.mark(MarkRepair, began)
	if poison > 0 {
		r.mark(FaultPoison, r.fed)
		r.count(FaultPoison, min(poison, len(todo)))
	}
	return nil
}
