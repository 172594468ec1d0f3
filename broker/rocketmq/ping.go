package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Ping returns nil while events of every key can be published: all masters of the
// topics in use answer, or one of them where keys may go elsewhere (Config.Any) or no
// topic is in use. One that is away is waited for until ctx is done or Config.Timeout
// has passed.
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
	var errs []error
	for _, broker := range slices.Sorted(maps.Keys(masters)) {
		err := errNoMaster
		if masters[broker] != "" {
			err = b.wire.Heartbeat(ctx, masters[broker], b.cfg.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("broker %q does not answer: %w", broker, err))
		}
	}
	if b.cfg.Any && len(errs) < len(masters) {
		return nil
	}
	return errors.Join(errs...)
}
