package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// errBusy refuses a request because too many wait already. Nothing was done.
var errBusy = errors.New("too many orders wait to be stored")

// errStopping refuses a request that was not begun because the process ends.
var errStopping = errors.New("the order service is stopping")

// errGone is the answer that nobody waits for. Nothing was done.
var errGone = errors.New("the client has gone")

// committer turns concurrent requests into few transactions: while one commit
// waits for the disk, whoever comes is gathered for the next. A commit costs
// the disk the same with one order in it as with hundreds.
type committer struct {
	orders *orderService
	// queue bounds what waits; a full queue sheds.
	queue chan *placement
	// most is how many orders share a transaction.
	most  int
	crash func(point string)
}

// commitTimeout bounds one transaction, the wait for its turn included.
const commitTimeout = 10 * time.Second

func newCommitter(orders *orderService, queue, most int, crash func(string)) *committer {
	if crash == nil {
		crash = func(string) {}
	}
	return &committer{orders: orders, queue: make(chan *placement, queue), most: most, crash: crash}
}

// submit waits until p is durable, was refused, or ctx is done. An error other
// than errBusy and errStopping means that p may be stored all the same: the
// client finds out by asking again with the same key.
func (c *committer) submit(ctx context.Context, p *placement) error {
	p.done, p.gone = make(chan error, 1), ctx.Done()
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
func (c *committer) gather(first *placement) []*placement {
	var batch []*placement
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

// commit stores batch in one transaction. If that fails each order is tried in
// one of its own, so that none fails because of another; storing an order
// twice is not possible, because its key is found.
func (c *committer) commit(ctx context.Context, batch []*placement) {
	if len(batch) == 0 {
		return
	}
	err := c.together(ctx, batch)
	if err != nil && len(batch) > 1 {
		for _, p := range batch {
			p.done <- c.together(ctx, []*placement{p})
		}
		return
	}
	for _, p := range batch {
		p.done <- err
	}
}

func (c *committer) together(ctx context.Context, batch []*placement) error {
	// A stop does not tear a commit; the time-out bounds how long it may take.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := inTx(ctx, c.orders.db, func(tx *sql.Tx) error {
		events := make([]*settle.Event, 0, len(batch))
		for _, p := range batch {
			e, err := c.orders.place(ctx, tx, p)
			if err != nil {
				return err
			}
			if e != nil {
				events = append(events, e)
			}
		}
		if err := c.orders.db.Append(ctx, tx, events...); err != nil {
			return err
		}
		// Crash here: neither order nor event is there; no client was answered.
		c.crash("order.before_commit")
		return nil
	})
	if err == nil {
		// Crash here: orders and events are there; clients ask again with the
		// same keys and are given the same orders.
		c.crash("order.after_commit")
	}
	return err
}
