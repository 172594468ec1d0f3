package rocketmq

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Ping returns nil while events can be published: a master of each topic in use
// answers, or, while none is in use, any master that the name servers know. One that
// is away is waited for until ctx is done or Config.Timeout has passed.
func (b *Broker) Ping(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	for {
		err := b.pingOnce(ctx)
		if err == nil || !pause(ctx, connectWait) {
			return err
		}
	}
}

func (b *Broker) pingOnce(ctx context.Context) error {
	masters := b.routes.masters()
	if len(masters) == 0 {
		return b.connectOnce(ctx)
	}
	for _, broker := range slices.Sorted(maps.Keys(masters)) {
		if masters[broker] == "" {
			return fmt.Errorf("the name servers know no master of broker %q", broker)
		}
		if err := b.wire.Heartbeat(ctx, masters[broker], b.cfg.Name); err != nil {
			return fmt.Errorf("broker %q does not answer: %w", broker, err)
		}
	}
	return nil
}
