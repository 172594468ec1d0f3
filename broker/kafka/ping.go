package kafka

import "context"

// Ping returns nil once a node has answered, or why none does when all were
// asked, ctx is done or twice Config.Timeout has passed.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	if err := b.cl.Ping(ctx); err != nil {
		return explain(err)
	}
	return nil
}
