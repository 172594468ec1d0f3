package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/outside"
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
	use, err := Broker(cfg.Dir)
	if err != nil {
		return fmt.Errorf("run shop: %w", err)
	}
	if cfg.BrokerURL == "" {
		cfg.BrokerURL = use.URL
	}
	p := &process{cfg: cfg, use: use}
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
	cfg      Config
	use      BrokerUse
	services crowd
	broker   settle.Broker
	entry    net.Listener // of the order entry
}

// open opens what the roles need, each database once. The entry looks into all
// databases to say what an order waits for.
func (p *process) open(ctx context.Context) error {
	var needed []string
	connect := false
	for _, name := range serviceNames() {
		works := p.cfg.has(RelayRole(name), ConsumerRole(name))
		if works || p.cfg.has(RoleOrderAPI) {
			needed = append(needed, name)
		}
		connect = connect || works
	}
	var err error
	if p.services, err = openCrowd(ctx, p.cfg, needed...); err != nil {
		return err
	}
	if connect {
		if err := p.connect(ctx); err != nil {
			return err
		}
	}
	if p.cfg.has(RoleOrderAPI) {
		// Before any role begins: an address in use would end them all again.
		if p.entry, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.cfg.Listen); err != nil {
			return fmt.Errorf("run %s: %w", RoleOrderAPI, err)
		}
	}
	return nil
}

// connect waits for the broker as long as it takes: it may be starting.
func (p *process) connect(ctx context.Context) error {
	for {
		b, err := dial.Broker(ctx, p.cfg.BrokerURL, dial.BrokerConfig{
			Topics: []string{p.use.Topic()}, Groups: p.use.Groups(), InstanceID: p.use.instance(p.cfg.Instance), Dial: p.cfg.Dial, Logger: p.cfg.Logger,
		})
		var wrong *dial.URLError
		switch {
		case err == nil:
			p.broker = inGroups{b, p.use}
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
	if p.entry != nil {
		_ = p.entry.Close() // the server has, if it served
	}
	if p.broker != nil {
		errs = append(errs, p.broker.Close())
	}
	return errors.Join(append(errs, p.services.close())...)
}

func (p *process) run(ctx context.Context) error {
	roles := map[string]func(context.Context) error{RoleOrderAPI: p.serve}
	for _, m := range p.services {
		roles[RelayRole(m.name)] = func(ctx context.Context) error { return p.relay(ctx, m) }
		roles[ConsumerRole(m.name)] = func(ctx context.Context) error { return p.consume(ctx, m) }
	}
	for _, system := range outside.Systems() {
		roles[system] = func(ctx context.Context) error { return p.serveOutside(ctx, system) }
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

func (p *process) relay(ctx context.Context, m *member) error {
	cfg := p.cfg.Relay
	cfg.Name, cfg.Crash, cfg.Logger = m.name, p.cfg.Crash, p.logger(RelayRole(m.name))
	if cfg.DelayAhead <= 0 {
		// Timers are all that is delayed here. None goes off before its time, though
		// the rules set a short one, or the relay comes late to read it.
		cfg.DelayAhead = time.Nanosecond
	}
	return relay.NewCrew(m.db.NewLog, p.broker, cfg).Run(ctx)
}

// calls is how many events of a service may wait for an outside system at a
// time: a slow one would let all others wait behind it.
const calls = 8

func (p *process) consume(ctx context.Context, m *member) error {
	role := ConsumerRole(m.name)
	cfg := p.cfg.Consumer
	cfg.Crash, cfg.Logger, cfg.Core, cfg.Topics = p.cfg.Crash, p.logger(role), true, []string{p.use.Topic()}
	all := m.reactions()
	if cfg.Concurrency == 0 && slices.ContainsFunc(all, func(r reaction) bool { return r.outside }) {
		cfg.Concurrency = calls
	}
	c := consumer.New(m.name, p.broker, m.db.Inbox, cfg)
	for _, r := range all {
		o := consumer.HandlerOptions{External: r.outside}
		c.HandleWith(r.on, o, r.do)
		if r.undo != nil {
			c.CompensateWith(r.on, o, r.undo)
		}
	}
	if p.cfg.StatsDir == "" {
		return c.Run(ctx)
	}
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer stop()
		return c.Run(ctx)
	})
	g.Go(func() error { return keepStats(keeping, p.cfg.StatsDir, role, c.Stats) })
	return g.Wait()
}

func (p *process) serveOutside(ctx context.Context, system string) error {
	cfg := p.cfg.Outside
	return outside.Run(ctx, outside.Config{
		System: system, Dir: p.cfg.Dir, Listen: cfg.Addresses[system], DeclinePercent: cfg.DeclinePercent, Logger: p.logger(system),
	})
}

// serve takes orders until ctx is done, then answers those that it has begun.
func (p *process) serve(ctx context.Context) error {
	log := p.logger(RoleOrderAPI)
	v := newView(p.services)
	h := newOrderHandler(v, newCommitter(v.orders, p.cfg.Queue, p.cfg.MaxBatch, p.cfg.Crash), entryTimeouts{}, log)
	server := h.server()
	if p.cfg.Ready != nil {
		p.cfg.Ready(p.entry.Addr().String())
	}
	log.Info("taking orders", "address", p.entry.Addr().String())
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
		if err := server.Serve(p.entry); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return g.Wait()
}
