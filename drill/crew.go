package drill

import (
	"context"
	"fmt"
	"sync"
)

// crew is a group of things that run until they are ended together. One that
// fails ends the whole drill.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	fail   context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newCrew(ctx context.Context, fail context.CancelCauseFunc) *crew {
	ctx, cancel := context.WithCancel(ctx)
	return &crew{ctx: ctx, cancel: cancel, fail: fail}
}

func (c *crew) add(run func(context.Context) error) {
	c.wg.Go(func() {
		if err := run(c.ctx); err != nil {
			c.fail(fmt.Errorf("drill: %w", err))
		}
	})
}

// end ends all and waits for them. Ending twice is harmless.
func (c *crew) end() {
	c.cancel()
	c.wg.Wait()
}
