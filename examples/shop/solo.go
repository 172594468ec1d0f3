package shop

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle/dial"
)

// Solo runs the whole shop in this process, broker included unless UseBroker has
// noted one, until ctx is done; then it ends in good order and returns nil. It
// goes on where the last one was killed. A directory that another runner uses
// is ErrInUse.
func Solo(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("run shop: %w", err)
	}
	lock, err := LockDir(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if use, err := Broker(cfg.Dir); err != nil || use.URL != "" {
		// Nobody else has the directory, and so the name.
		cfg.Instance = "shop"
		return errors.Join(err, Run(ctx, cfg))
	}
	// The broker outlives the roles, so that they end with all acknowledged.
	brokerCtx, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBroker()
	g, ctx := errgroup.WithContext(ctx)
	ready, ended := make(chan string, 1), make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		server := dial.ServerConfig{Dir: brokerDir(cfg.Dir), Ready: func(u string) { ready <- u }, Logger: cfg.Logger.With("role", "broker")}
		return dial.ServeBroker(brokerCtx, server)
	})
	g.Go(func() error {
		defer stopBroker()
		select {
		case cfg.BrokerURL = <-ready:
		case <-ended:
			return nil // the broker's own error says why
		}
		return Run(ctx, cfg)
	})
	return g.Wait()
}
