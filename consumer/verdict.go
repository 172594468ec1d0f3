package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
)

// applied deals with the end of a work.
func (m *Machine) applied(in Applied) {
	w := m.land(in.ID)
	if w == nil {
		return
	}
	for _, t := range in.Times {
		if k := m.kindOf(t.Type, t.Compensation); k != nil {
			k.observe(t)
		}
	}
	again := -1 // the work's index up to which it is to be done again at once
	switch {
	case in.BatchErr != nil && w.batch != nil && w.calls > 0:
		m.storeUp(true)
		again = m.batchFailed(w, in.BatchErr)
	case in.Err != nil:
		m.applyFailed(w, in.Err)
	case len(in.Results) != len(w.items):
		m.transactionFailed(w, fmt.Errorf("apply work: store returned %d results for %d items", len(in.Results), len(w.items)))
	default:
		again = m.results(w, in.Results)
	}
	if w.refs[0].d == nil {
		m.dueEnded()
	} else {
		m.releaseAll(w, again)
	}
	m.discard(w)
}

// releaseAll takes the deliveries of w out of it, but for those that are taken
// into the work which does it again up to index again.
func (m *Machine) releaseAll(w *work, again int) {
	for _, r := range w.refs {
		r.d.busy = false
	}
	if again >= 0 && !m.stopping {
		m.redo(w, again)
	}
	var before *delivery
	for _, r := range w.refs {
		if r.d != before && !r.d.busy {
			m.release(r.d)
		}
		before = r.d
	}
}

// applyFailed deals with an error of Inbox.Apply: nothing is known to be
// durable.
func (m *Machine) applyFailed(w *work, err error) {
	switch {
	case errors.Is(err, settle.ErrNewGeneration):
		m.halt(err)
	case errors.Is(err, settle.ErrFenced) && w.refs[0].d != nil:
		for _, r := range w.refs {
			if r.d.err == nil {
				r.d.err = settle.ErrFenced
			}
		}
	case m.stopping:
	default:
		m.transactionFailed(w, err)
	}
}

// results takes the verdicts. It returns the index of the first failed item
// that is to be written down now, together with what came before it; -1 if
// there is none.
func (m *Machine) results(w *work, results []settle.Result) (again int) {
	again = -1
	durable, failed := 0, 0
	for i := range results {
		res := &results[i]
		switch {
		case res.Verdict.Durable():
			durable++
			m.durable(w, i, res)
		case res.Verdict == settle.VerdictFailed && w.items[i].Intent == settle.IntentHandle:
			failed++
			if m.failed(w, i, res.Err, res.Panic) && again < 0 {
				again = i
			}
		}
	}
	if durable+failed == 0 {
		m.transactionFailed(w, errors.New("apply work: store ran nothing and gave no reason"))
		return -1
	}
	m.storeUp(true)
	return again
}

// durable notes that an item is done.
func (m *Machine) durable(w *work, i int, res *settle.Result) {
	it := &w.items[i]
	m.stats.count(it, res.Verdict)
	switch res.Verdict {
	case settle.VerdictApplied, settle.VerdictRejected:
		if k := m.kindOf(it.Record.Event.Type, it.Compensate); k != nil && !k.gate.quiet() {
			if k.gate.open {
				m.emit(Note{State: "breaker", Now: "closed", Name: k.name})
			}
			k.gate.close()
		}
		if k := w.batch; k != nil {
			k.rows = min(k.rows+1, m.cfg.BatchRows)
		}
	case settle.VerdictParked:
		m.due.soon(it.NextAt)
	}
	if r := w.refs[i]; r.d != nil {
		r.d.markDone(r.i)
	} else {
		m.due.durable(r.i, w.stage, it, res.Verdict)
	}
}

// failed deals with an item whose handler failed. It returns true when what
// was decided is to be written down now.
func (m *Machine) failed(w *work, i int, err error, stack string) bool {
	it, r := &w.items[i], w.refs[i]
	if err == nil {
		err = errors.New("handler failed without an error")
	}
	if m.stopping && errors.Is(err, context.Canceled) {
		return false
	}
	k := m.kindOf(it.Record.Event.Type, it.Compensate)
	if settle.IsUnavailable(err) {
		m.breaker(k, k.gate.unavailable(m.now, m.cfg.Breaker), err)
		if r.d == nil {
			m.due.takeBack(r.i, k.gate.until)
		}
		return false
	}
	if errors.Is(err, ErrHandlerTimeout) {
		m.breaker(k, k.gate.timedOut(m.now, m.cfg.Breaker), err)
	} else {
		opened, closed := k.gate.failed(m.now, m.cfg.Breaker, keyOf(&it.Record), r.d != nil)
		if closed {
			m.emit(Note{State: "breaker", Now: "closed", Name: k.name})
		}
		m.breaker(k, opened, err)
	}
	m.stats.Failed++
	if it.Attempt > 1 {
		m.stats.Retried++
	}
	out := m.outcome(it, err, stack)
	if r.d == nil {
		m.due.fail(r.i, out, m.cfg.Pass)
		return true
	}
	r.d.write(r.i, out)
	return !k.gate.held(m.now)
}

func (m *Machine) breaker(k *kind, opened bool, err error) {
	if opened {
		m.emit(Note{State: "breaker", Now: "open", Name: k.name, Err: err})
	}
}

// outcome says what a failed attempt leads to: a later one, or a dead letter.
func (m *Machine) outcome(it *settle.Item, err error, stack string) settle.Item {
	out := *it
	if it.Compensate {
		err = fmt.Errorf("compensation: %w", err)
	}
	out.Intent, out.Class, out.Cause, out.EffectKey = settle.IntentDie, settle.ClassHandler, cause(err, stack), ""
	var panicked *PanicError
	var version *VersionError
	switch {
	case errors.As(err, &version):
		out.Class = settle.ClassVersion
		return out
	case settle.IsPermanent(err):
		out.Class = settle.ClassPermanent
		return out
	case stack != "" || errors.As(err, &panicked):
		out.Class = settle.ClassPanic
	}
	if wait, again := m.cfg.Retry.Next(it.Record.Event.ID, it.Attempt, err); again {
		out.Intent, out.NextAt = settle.IntentPark, m.now.Add(wait)
	}
	return out
}

// batchFailed deals with the error of a batch handler. Nobody knows which of
// the events it is about, so the calls that follow are half as large, down to
// one event. It returns what results returns.
func (m *Machine) batchFailed(w *work, err error) (again int) {
	if w.calls > 1 && !settle.IsUnavailable(err) {
		w.batch.rows = max(1, min(w.batch.rows, w.calls)/2)
		return -1
	}
	for i := range w.items {
		if w.items[i].Intent == settle.IntentHandle {
			if m.failed(w, i, err, "") {
				return i
			}
			return -1
		}
	}
	return -1
}

// redo issues the part of w up to and including index last again, with the
// failed items written down instead of handled: what came before a failed item
// is handled twice at most, however many fail.
func (m *Machine) redo(old *work, last int) {
	w := m.newWork()
	for i, r := range old.refs[:last+1] {
		if r.d.done[r.i] || r.d.err != nil {
			continue
		}
		it, ok := r.d.written[r.i]
		if !ok {
			it = old.items[i]
		}
		w.add(r, it, len(it.Record.Raw))
		if it.Intent == settle.IntentHandle {
			w.calls++
		}
	}
	if len(w.items) == 0 {
		m.discard(w)
		return
	}
	w.batch = old.batch
	m.issue(w)
}

// cause is the text kept with a parked or dead event.
func cause(err error, stack string) string {
	text := err.Error()
	var panicked *PanicError
	if stack == "" && errors.As(err, &panicked) {
		stack = panicked.Stack
	}
	if stack != "" {
		text += "\n" + stack
	}
	if len(text) > maxCause {
		text = text[:maxCause]
	}
	return text
}
