package rabbitmq

import (
	"context"
	"errors"
	"fmt"
)

// Ping returns nil while events can be published: the connection is there (what
// hangs is gone after two or three heartbeats) and no alarm stops it. One that is
// being made again is waited for, until ctx is done or Config.Timeout has passed.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	s, err := b.publishing.await(ctx)
	if err != nil {
		return errors.New(oneLine(err))
	}
	if why, is := s.blockedBy(); is {
		return fmt.Errorf("RabbitMQ takes no messages until its alarm ends: %s", why)
	}
	return nil
}
