package sim

import "github.com/settlemq/settle"

// underLocks runs a handler, and what other transactions' locks do to it: InnoDB
// rolls a statement back (lock time-out, 1205), or all that the transaction has
// done (deadlock, 1213). The handler gets the error and may overlook it. The
// store takes both for the end of the transaction.
func (x *inboxModel) underLocks(i int, handle handler) error {
	w, began := x.w, len(x.undo)
	err := handle(i)
	switch {
	case !w.InnoDB || err != nil || len(x.undo) == began: // or it has asked the database nothing
		return err
	case w.chance(w.Deadlocks):
		x.undoTo(0)
		x.ended = true
	case w.chance(w.LockWaits / 2):
		x.undoTo(began)
		x.ended = true
	default:
		return nil
	}
	if w.chance(0.5) {
		w.probes.hit("handler overlooked that its transaction had ended")
		return nil
	}
	return errConflict
}

// apart is what becomes of a work whose transaction has ended under it: nothing
// of it is kept, and its items have a transaction each. One alone, or what is
// decided once for all of it, is left for another Apply.
func (x *inboxModel) apart(wk settle.Work, handle handler, before func() error, results []settle.Result) ([]settle.Result, error) {
	x.rollback(results, -1)
	if len(wk.Items) == 1 || before != nil {
		return nil, errConflict
	}
	x.w.probes.hit("work done apart after a conflict")
	if err := x.applyEach(wk, handle, before, results); err != nil {
		return nil, err
	}
	for i := range results {
		if v := results[i].Verdict; v.Durable() || v == settle.VerdictFailed {
			return results, nil
		}
	}
	return nil, errConflict
}
