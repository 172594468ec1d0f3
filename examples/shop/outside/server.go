package outside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Config says which system Run serves. System and Dir are required.
type Config struct {
	// System is one of Systems.
	System string
	// Dir is the shop's directory. The system keeps its ledger in
	// outside/SYSTEM.db there, and writes where it serves to outside/SYSTEM.addr.
	Dir string
	// Listen is where it serves, HOST:PORT. Defaults to 127.0.0.1:0, a port that
	// is free.
	Listen string
	// Ready is called with its address once it serves. Defaults to nil: nothing.
	Ready func(addr string)
	// DeclinePercent is the share of customers, 0 to 100, whose payments the
	// provider declines, beside those whose ids begin with "declined". Defaults
	// to 0.
	DeclinePercent int
	// Logger gets what a person should know. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if err := CheckSystem(c.System); err != nil {
		return c, err
	}
	if c.Dir == "" {
		return c, errors.New("no directory is given")
	}
	if c.DeclinePercent < 0 || c.DeclinePercent > 100 {
		return c, fmt.Errorf("decline percent is %d; it must be 0 to 100", c.DeclinePercent)
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// Run serves an outside system until ctx is done, then answers what it has in
// hand and returns nil.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("run outside system: %w", err)
	}
	if err := serve(ctx, cfg); err != nil {
		return fmt.Errorf("run %s: %w", cfg.System, err)
	}
	return nil
}

func serve(ctx context.Context, cfg Config) error {
	// What a killed one left behind may be a stranger's port by now.
	if err := withdraw(cfg.Dir, cfg.System, ""); err != nil {
		return err
	}
	ledger, err := openLedger(ctx, LedgerPath(cfg.Dir, cfg.System))
	if err != nil {
		return err
	}
	defer func() { _ = ledger.close() }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if err := announce(cfg.Dir, cfg.System, addr); err != nil {
		return errors.Join(err, l.Close())
	}
	if cfg.Ready != nil {
		cfg.Ready(addr)
	}
	cfg.Logger.Info("serving", "system", cfg.System, "address", addr)
	d := newDesk(ctx, cfg, ledger)
	return errors.Join(serveHTTP(ctx, d.server(ctx), l), withdraw(cfg.Dir, cfg.System, addr))
}

// serveHTTP serves until ctx is done, then waits a while for what is in hand.
func serveHTTP(ctx context.Context, server *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// A connection on which no request has come yet counts as busy for 5 s.
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(draining) != nil {
		_ = server.Close()
	}
	<-served
	return nil
}
