package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/settlemq/settle"
)

// errBusy refuses a request because too many wait already. Nothing was done.
var errBusy = errors.New("too many requests wait to be stored")

// errStopping refuses a request that was not begun because the process ends.
var errStopping = errors.New("the order service is stopping")

// errGone is the answer that nobody waits for. Nothing was done.
var errGone = errors.New("the client has gone")

// change is what one request does to the order service's database, in a
// transaction that it may share with others. It returns the events of what it
// did. An error undoes the transaction, and apply may be called again.
type change interface {
	apply(ctx context.Context, tx *sql.Tx, orders *orderService) ([]*settle.Event, error)
}

// pending is a change that waits for its commit.
type pending struct {
	change
	gone <-chan struct{} // closed when nobody waits for the answer any more
	done chan error      // receives once
}

// committer turns concurrent requests into few transactions: while one commit
// waits for the disk, whoever comes is gathered for the next. A commit costs
// the disk the same with one change in it as with hundreds.
type committer struct {
	orders *orderService
	// queue bounds what waits; a full queue sheds.
	queue chan *pending
	// most is how many changes share a transaction.
	most  int
	crash func(point string)
	// failed is when a transaction failed last, in µs; 0 if one succeeded since.
	failed atomic.Int64
}

// commitTimeout bounds one transaction, the wait for its turn included.
const commitTimeout = 10 * time.Second

// failureCounts is how long a failed transaction says something about the next:
// who is sent no more orders because of it must be tried again some time.
const failureCounts = 5 * time.Second

func newCommitter(orders *orderService, queue, most int, crash func(string)) *committer {
	if crash == nil {
		crash = func(string) {}
	}
	return &committer{orders: orders, queue: make(chan *pending, queue), most: most, crash: crash}
}

// submit waits until what is durable, was refused, or ctx is done. An error
// other than errBusy and errStopping means that it may be stored all the same:
// the client finds out by asking again.
func (c *committer) submit(ctx context.Context, what change) error {
	p := &pending{change: what, gone: ctx.Done(), done: make(chan error, 1)}
	select {
	case c.queue <- p:
	default:
		return errBusy
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for commit: %w", ctx.Err())
	}
}

// Run commits until ctx is done, then refuses what waits. Nobody may submit
// after that.
func (c *committer) Run(ctx context.Context) error {
	for {
		select {
		case p := <-c.queue:
			c.commit(ctx, c.gather(p))
		case <-ctx.Done():
			c.refuse()
			return nil
		}
	}
}

func (c *committer) refuse() {
	for {
		select {
		case p := <-c.queue:
			p.done <- errStopping
		default:
			return
		}
	}
}

// gather takes what waits now; it never waits for more. Whoever has gone away
// meanwhile is left out: under overload the work goes to those who still wait.
func (c *committer) gather(first *pending) []*pending {
	var batch []*pending
	for p := first; ; {
		select {
		case <-p.gone:
			p.done <- errGone
		default:
			batch = append(batch, p)
		}
		if len(batch) == c.most {
			return batch
		}
		select {
		case p = <-c.queue:
		default:
			return batch
		}
	}
}

// commit makes the changes of batch in one transaction, in their order. If that
// fails each is tried in one of its own, so that none fails because of another;
// one that was stored all the same finds that, and does nothing.
func (c *committer) commit(ctx context.Context, batch []*pending) {
	if len(batch) == 0 {
		return
	}
	err := c.together(ctx, batch)
	if err != nil && len(batch) > 1 {
		for _, p := range batch {
			p.done <- c.together(ctx, []*pending{p})
		}
		return
	}
	for _, p := range batch {
		p.done <- err
	}
}

// failing reports whether the last transaction failed, lately.
func (c *committer) failing() bool {
	at := c.failed.Load()
	return at != 0 && c.orders.now().Sub(time.UnixMicro(at)) < failureCounts
}

func (c *committer) together(ctx context.Context, batch []*pending) error {
	// A stop does not tear a commit; the time-out bounds how long it may take.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := inTx(ctx, c.orders.db, func(tx *sql.Tx) error {
		events := make([]*settle.Event, 0, 2*len(batch))
		for _, p := range batch {
			e, err := p.apply(ctx, tx, c.orders)
			if err != nil {
				return err
			}
			events = append(events, e...)
		}
		if err := c.orders.db.Append(ctx, tx, events...); err != nil {
			return err
		}
		// Crash here: neither changes nor events are there; no client was answered.
		c.crash("order.before_commit")
		return nil
	})
	if err != nil {
		c.failed.Store(c.orders.now().UnixMicro())
	} else {
		c.failed.Store(0)
		// Crash here: changes and events are there; clients ask again and are told
		// of the same orders.
		c.crash("order.after_commit")
	}
	return err
}
