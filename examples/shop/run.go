package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/relay"
)

// Run runs the roles of cfg in this process until ctx is done, then ends them
// in good order and returns nil. A broker that does not answer is waited for.
// An error says which role could not go on; the others have ended then.
//
// Any number of processes may run roles of one directory.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("run shop: %w", err)
	}
	p := &process{cfg: cfg}
	err = p.open(ctx)
	if err == nil {
		err = p.run(ctx)
	}
	err = errors.Join(err, p.close())
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// process is what the roles of one process share.
type process struct {
	cfg       Config
	orders    *orderService
	inventory *inventoryService
	broker    settle.Broker
}

// open opens what the roles need, each database once. The entry looks into the
// inventory's database to say what an order waits for.
func (p *process) open(ctx context.Context) error {
	var err error
	if p.cfg.has(RoleOrderAPI, RoleOrderRelay, RoleOrderConsumer) {
		if p.orders, err = openOrders(ctx, p.cfg.Dir, p.cfg.Crash); err != nil {
			return err
		}
	}
	if p.cfg.has(RoleOrderAPI, RoleInventoryRelay, RoleInventoryConsumer) {
		if p.inventory, err = openInventory(ctx, p.cfg.Dir, p.cfg.Crash); err != nil {
			return err
		}
	}
	if p.cfg.has(RoleOrderRelay, RoleOrderConsumer, RoleInventoryRelay, RoleInventoryConsumer) {
		return p.connect(ctx)
	}
	return nil
}

// connect waits for the broker as long as it takes: it may be starting.
func (p *process) connect(ctx context.Context) error {
	for {
		b, err := dial.Broker(ctx, p.cfg.BrokerURL, dial.BrokerConfig{Topics: []string{settle.DefaultTopic}, Logger: p.cfg.Logger})
		var wrong *dial.URLError
		switch {
		case err == nil:
			p.broker = b
			return nil
		case errors.As(err, &wrong):
			return err
		}
		p.cfg.Logger.Warn("the broker does not answer", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *process) close() error {
	var errs []error
	if p.broker != nil {
		errs = append(errs, p.broker.Close())
	}
	if p.inventory != nil {
		errs = append(errs, p.inventory.db.Close())
	}
	if p.orders != nil {
		errs = append(errs, p.orders.db.Close())
	}
	return errors.Join(errs...)
}

func (p *process) run(ctx context.Context) error {
	roles := map[string]func(context.Context) error{
		RoleOrderAPI:          p.serve,
		RoleOrderRelay:        func(ctx context.Context) error { return p.relay(ctx, "order", p.orders.db) },
		RoleInventoryRelay:    func(ctx context.Context) error { return p.relay(ctx, "inventory", p.inventory.db) },
		RoleOrderConsumer:     p.consumeOrders,
		RoleInventoryConsumer: p.consumeInventory,
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, name := range p.cfg.Roles {
		g.Go(func() error {
			if err := roles[name](ctx); err != nil {
				return fmt.Errorf("run %s: %w", name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (p *process) logger(role string) *slog.Logger { return p.cfg.Logger.With("role", role) }

func (p *process) relay(ctx context.Context, service string, db *dial.Database) error {
	cfg := p.cfg.Relay
	cfg.Name, cfg.Crash, cfg.Logger = service, p.cfg.Crash, p.logger(service+"-relay")
	return relay.New(db.Log, p.broker, cfg).Run(ctx)
}

func (p *process) consumeOrders(ctx context.Context) error {
	c := consumer.New(GroupOrder, p.broker, p.orders.db.Inbox, p.consumerConfig(RoleOrderConsumer))
	c.Handle(InventoryReserved, p.orders.decided)
	c.Handle(InventoryReserveFailed, p.orders.decided)
	return p.consume(ctx, RoleOrderConsumer, c.Run, c.Stats)
}

func (p *process) consumeInventory(ctx context.Context) error {
	c := consumer.New(GroupInventory, p.broker, p.inventory.db.Inbox, p.consumerConfig(RoleInventoryConsumer))
	c.Handle(OrderCreated, p.inventory.created)
	c.Handle(OrderCancelled, p.inventory.cancelled)
	return p.consume(ctx, RoleInventoryConsumer, c.Run, c.Stats)
}

func (p *process) consumerConfig(role string) consumer.Config {
	cfg := p.cfg.Consumer
	cfg.Crash, cfg.Logger, cfg.Core = p.cfg.Crash, p.logger(role), true
	return cfg
}

func (p *process) consume(ctx context.Context, role string, run func(context.Context) error, stats func() consumer.Stats) error {
	if p.cfg.StatsDir == "" {
		return run(ctx)
	}
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer stop()
		return run(ctx)
	})
	g.Go(func() error { return keepStats(keeping, p.cfg.StatsDir, role, stats) })
	return g.Wait()
}

// serve takes orders until ctx is done, then answers those that it has begun.
func (p *process) serve(ctx context.Context) error {
	log := p.logger(RoleOrderAPI)
	h := &orderHandler{
		orders: p.orders, committer: newCommitter(p.orders, p.cfg.Queue, p.cfg.MaxBatch, p.cfg.Crash),
		waiting: newView(p.orders, p.inventory).waiting, log: log,
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.cfg.Listen)
	if err != nil {
		return err
	}
	server := h.server()
	if p.cfg.Ready != nil {
		p.cfg.Ready(l.Addr().String())
	}
	log.Info("taking orders", "address", l.Addr().String())
	// The committer outlives the server: who waits for a commit is answered.
	committing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, serving := errgroup.WithContext(ctx)
	g.Go(func() error { return h.committer.Run(committing) })
	g.Go(func() error {
		defer stop()
		<-serving.Done()
		// A connection on which no request has come yet counts as busy for 5 s;
		// orders in hand need far less.
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := server.Shutdown(draining); err != nil {
			return server.Close()
		}
		return nil
	})
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return g.Wait()
}
