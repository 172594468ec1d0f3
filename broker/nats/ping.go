package nats

import "context"

// Ping returns nil once the server has answered, or an error when ctx is done or
// Config.Timeout has passed before that. A connection that is lost is
// waited for.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, stop := within(ctx, b.life)
	defer stop()
	ctx, late := context.WithTimeout(ctx, b.cfg.Timeout)
	defer late()
	session, err := b.link.await(ctx)
	if err != nil {
		return errDisconnected
	}
	ctx, cancel := within(ctx, session)
	defer cancel()
	return b.nc.FlushWithContext(ctx)
}
