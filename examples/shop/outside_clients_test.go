package shop

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/examples/shop/outside"
)

// inHouse are the roles of the shop's own.
func inHouse() []string { return Roles()[:len(Roles())-len(outside.Systems())] }

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestAShopThatStartsBeforeItsOutsideSystemsWaitsForThemWithoutAnAttempt(t *testing.T) {
	dir := t.TempDir()
	if err := Stock(t.Context(), dir, Level{"a", 10}); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dir)
	cfg.Roles = inHouse()
	cfg.Outside.Addresses = map[string]string{outside.CarrierSystem: freeAddress(t)} // the others say where they are
	cfg.Outside.BreakerWait = 10 * time.Millisecond
	cfg.Consumer.Breaker.MaxWait = 50 * time.Millisecond
	r := start(t, memoryShop, cfg)
	r.place(t, "k1", Item{"a", 1})
	eventually(t, "the order confirmed", func() bool { return r.with(t, lifecycle.Confirmed) == 1 })
	eventually(t, "payments paused", func() bool {
		stats, err := ReadStats(cfg.StatsDir)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(stats, func(s consumer.Stats) bool { return slices.Contains(s.Open, lifecycle.OrderConfirmed) })
	})
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	theirs := cfg
	theirs.Roles, theirs.Ready = outside.Systems(), nil
	g.Go(func() error { return Run(ctx, theirs) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the order completed", func() bool { return r.with(t, lifecycle.Completed) == 1 })
	if n := number(t, r.view.services.named("payment").db.Reader, `SELECT MAX(attempts) FROM t_message_consume_log`); n > 1 {
		t.Errorf("a payment took %d attempts", n)
	}
	if addr, err := outside.Address(dir, outside.CarrierSystem); err != nil || addr != cfg.Outside.Addresses[outside.CarrierSystem] {
		t.Errorf("the carrier serves at %s, %v; asked for was %s", addr, err, cfg.Outside.Addresses[outside.CarrierSystem])
	}
}
