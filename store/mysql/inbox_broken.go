package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// errRolledBack means that the server has rolled the transaction back, whoever
// has seen the error.
var errRolledBack = errors.New("the server has ended the transaction")

// errEnded means that a handler has committed half of its event.
var errEnded = errors.New("what the handler has called has ended the transaction of its event (statements that change tables commit it): what it had done by then stays, the rest does not; take such statements out of the procedure")

// broken looks at what the handler of item i has left. It returns an error
// where that is not the handler's fault, or says nothing of this one only, and
// makes out a failure where the transaction can't be committed any more. A
// handler's error speaks of our database only if our transaction has suffered:
// it may come from another server that it asked.
func (a *apply) broken(ctx context.Context, i int, out *settle.Result, failed bool, began time.Time) error {
	w := a.watch
	closed := !w.IsValid() && w.reading == 0
	fail := func(err error) { *out = settle.Result{Verdict: settle.VerdictFailed, Err: err} }
	switch {
	case failed && (errors.Is(out.Err, context.DeadlineExceeded) || errors.Is(out.Err, context.Canceled)):
		return nil // its time was over, which ends the connection
	case (closed || faultOf(w.err) == faultLost) && ctx.Err() == nil:
		if silent := time.Since(began); len(a.items) == 1 && silent >= silenceTimes*a.in.s.cfg.IdleTimeout {
			fail(fmt.Errorf("the connection has gone while the handler was at work for %s; one that says nothing to the database for longer than wait_timeout loses it: ask other systems by consumer.Ask: %w", silent.Round(time.Millisecond), errors.Join(errLost, out.Err)))
			return nil
		}
		return fmt.Errorf("run handler: %w", errors.Join(errLost, out.Err))
	case failed && faultOf(w.err) != faultOther && (faultOf(out.Err) != faultOther || hasCode(w.err, codeDeadlock)):
		return fmt.Errorf("run handler: %w", w.err)
	case !failed && w.reading > 0:
		fail(errors.New("the handler has not closed what it read"))
		return nil
	case !failed && w.refused != nil:
		fail(w.refused)
		return nil
	case failed && !w.called, !w.doubtful || closed:
		return nil
	}
	return a.doubt(ctx, i, out)
}

// doubt finds out whether the transaction is still there.
func (a *apply) doubt(ctx context.Context, i int, out *settle.Result) error {
	db, cancel := a.in.s.ours(ctx)
	defer cancel()
	err := a.whole(db)
	switch {
	case err == nil:
		_, err = a.tx.ExecContext(db, markTransaction)
		return err
	case !errors.Is(err, errRolledBack):
		return err
	case a.watch.err != nil || !a.watch.called:
		return errors.Join(errRolledBack, a.watch.err)
	}
	if err := a.takeBack(db, i); err != nil {
		return fmt.Errorf("%w; %w", errEnded, err)
	}
	*out = settle.Result{Verdict: settle.VerdictFailed, Err: errors.Join(errEnded, out.Err)}
	return nil
}

const (
	forgetOwn = `DELETE FROM t_message_consume_log WHERE consumer_group = ? AND event_id IN `

	// FAILED is what a foreign consumer has left, to be taken over again.
	reopenLog = `UPDATE t_message_consume_log SET status = ?, effect_key = NULL WHERE consumer_group = ? AND event_id = ?`
)

// takeBack undoes what was committed with the first half of item i, of which
// the log says that it has taken effect: its own row, and those of all behind
// it. What came before it was done.
//
// Crash here: item i counts as done, and so do those behind it that were
// recorded with it. Only a stored procedure gets that far; what is seen to end
// a transaction is refused.
func (a *apply) takeBack(ctx context.Context, i int) error {
	if err := a.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	err := a.in.s.write(ctx, a.in.s.own, func(tx *sql.Tx) error {
		ids := []any{a.w.Group}
		for j := i; j < len(a.items); j++ {
			if a.own[a.items[j].EventID] {
				ids = append(ids, a.items[j].EventID)
			}
		}
		if len(ids) > 1 {
			if _, err := tx.ExecContext(ctx, forgetOwn+places(len(ids)-1), ids...); err != nil {
				return err
			}
		}
		it := &a.items[i]
		if a.own[it.EventID] {
			return nil
		}
		status := "FAILED"
		if it.RetryID != 0 {
			status = consumelog.StatusParked
		}
		_, err := tx.ExecContext(ctx, reopenLog, status, a.w.Group, it.EventID)
		return err
	})
	if err != nil {
		return fmt.Errorf("take back what was recorded: %w", err)
	}
	return nil
}
