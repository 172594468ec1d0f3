package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/examples/shop/outside"
	"github.com/settlemq/settle/govern"
)

// running is a shop that runs in this process.
type running struct {
	entry
	dir  string
	stop func()
	view *view
}

// testConfig makes retries quick and the group patient with poison.
func testConfig(dir string) Config {
	cfg := Config{Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), StatsDir: filepath.Join(dir, "stats")}
	cfg.Consumer.Retry = settle.Backoff{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 3}
	cfg.Consumer.RetryPoll = 20 * time.Millisecond
	cfg.Consumer.Breaker.DistinctKeys = -1
	cfg.Rules.ReviewAfter = 20 * time.Millisecond
	return cfg
}

// start runs a shop until stop is called, or the test ends.
func start(t *testing.T, run func(context.Context, Config) error, cfg Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	go func() { ended <- run(ctx, cfg) }()
	r := &running{dir: cfg.Dir}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("shop ended with %v", err)
		}
	})
	t.Cleanup(r.stop)
	select {
	case addr := <-ready:
		r.url = "http://" + addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	var err error
	if r.view, err = openView(t.Context(), cfg.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.view.close() })
	return r
}

func memoryShop(ctx context.Context, cfg Config) error {
	cfg.BrokerURL = "memory:"
	return Run(ctx, cfg)
}

// eventually looks until it holds; the databases ring no bell for other
// processes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func (r *running) place(t *testing.T, key string, lines ...Item) {
	t.Helper()
	b, err := json.Marshal(OrderRequest{CustomerID: "c", Amount: 100, Items: lines})
	if err != nil {
		t.Error(err)
	}
	if status, _, body := r.post(t, key, string(b)); status != http.StatusCreated {
		t.Errorf("placing %s: %d %s", key, status, body)
	}
}

func (r *running) with(t *testing.T, status string) int64 {
	return number(t, r.view.orders.db.Reader, "SELECT COUNT(*) FROM t_order WHERE status = '"+status+"'")
}

const sumCompleted = `SELECT COALESCE(SUM(amount_cents), 0) FROM t_order WHERE status = 'COMPLETED'`

// ledgers sums up what the outside systems have done.
func (r *running) ledgers(t *testing.T) map[string]outside.Sum {
	t.Helper()
	all := map[string]outside.Sum{}
	for _, system := range outside.Systems() {
		s, err := outside.Inspect(t.Context(), r.dir, system)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, s.Ledger)
	}
	return all
}

func TestRealOrdersAreAllSettledByAShopInOneProcess(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testRealOrdersAreAllSettledByAShopInOneProcess(t, t.TempDir()) })
	t.Run("postgres", func(t *testing.T) { testRealOrdersAreAllSettledByAShopInOneProcess(t, postgresDir(t)) })
	if os.Getenv("SETTLE_TEST_ALL") != "" { // it takes as long as all others; a demo on MySQL is quick
		t.Run("mysql", func(t *testing.T) { testRealOrdersAreAllSettledByAShopInOneProcess(t, mysqlDir(t)) })
	}
}

func testRealOrdersAreAllSettledByAShopInOneProcess(t *testing.T, dir string) {
	feed, err := SampleFeed()
	if err != nil {
		t.Fatal(err)
	}
	orders := feed.Take(200)
	if err := Stock(t.Context(), dir, Demand(orders)...); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dir)
	cfg.Outside.DeclinePercent = 10
	r := start(t, Solo, cfg)
	if err := Solo(t.Context(), testConfig(dir)); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second shop in the directory: %v", err)
	}
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := c; i < len(orders); i += 8 {
				if status, _, body := r.post(t, orders[i].Key, orderJSON(t, orders[i].OrderRequest)); status != http.StatusCreated {
					t.Errorf("order %d: %d %s", i, status, body)
				}
			}
		})
	}
	clients.Wait()
	eventually(t, "200 orders settled", func() bool { return r.with(t, lifecycle.Completed)+r.with(t, lifecycle.Cancelled) == 200 })
	eventually(t, "what came of it done", func() bool {
		ledgers := r.ledgers(t)
		held := number(t, r.view.services.named("inventory").db.Reader, `SELECT SUM(reserved) FROM t_stock`)
		return held == 0 && ledgers[outside.KindCapture].Cents-ledgers[outside.KindRefund].Cents == number(t, r.view.orders.db.Reader, sumCompleted) &&
			ledgers[outside.KindShipment].Rows == r.with(t, lifecycle.Completed) && ledgers[outside.KindDecline].Rows > 0
	})
	if bad := number(t, r.view.services.named("inventory").db.Reader, wrongStock); bad != 0 {
		t.Errorf("the stock of %d articles is wrong", bad)
	}
	j, err := r.view.federation.Trail(t.Context(), OrderID(orders[0].Key))
	applied := map[string]string{}
	for _, step := range j.Steps {
		if step.Stage == govern.StageApplied {
			applied[step.EventType] = step.Group
		}
	}
	if err != nil || applied[lifecycle.OrderConfirmed] != "payment" || applied[lifecycle.InventoryReserved] != "order" {
		t.Errorf("trail: %v, %v", j.Steps, err)
	}
	r.stop()
	stats, err := ReadStats(filepath.Join(dir, "stats"))
	if err != nil || len(stats) != len(Services()) {
		t.Errorf("stats: %+v, %v; want those of each group", stats, err)
	}
	for _, group := range stats {
		if group.Applied < 200 {
			t.Errorf("stats: %+v; want 200 applied or more", group)
		}
	}
}

func TestAShopGoesOnWhereTheLastOneEnded(t *testing.T) {
	onEachDatabase(t, testAShopGoesOnWhereTheLastOneEnded)
}

func testAShopGoesOnWhereTheLastOneEnded(t *testing.T, dir string) {
	if err := Stock(t.Context(), dir, Level{"a", 100}); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dir)
	cfg.Roles = []string{RoleOrderAPI} // nobody delivers
	r := start(t, Solo, cfg)
	for i := range 20 {
		r.place(t, fmt.Sprint("k", i), Item{"a", 1})
	}
	open, err := r.view.unsettled(t.Context(), 5)
	if err != nil || len(open) != 5 || open[0].Age <= 0 || !strings.Contains(open[0].Cause, "order.created waits to be published") {
		t.Errorf("unsettled: %+v, %v", open, err)
	}
	r.stop()
	again := start(t, Solo, testConfig(dir))
	eventually(t, "20 orders completed", func() bool { return again.with(t, lifecycle.Completed) == 20 })
	if status, body := again.get(t, "/orders/"+OrderID("k0")); status != 200 || !strings.Contains(body, lifecycle.Completed) {
		t.Errorf("got %d %s", status, body)
	}
}

func TestOneOfAHundredBuyersGetsTheLastPiece(t *testing.T) {
	onEachDatabase(t, testOneOfAHundredBuyersGetsTheLastPiece)
}

func testOneOfAHundredBuyersGetsTheLastPiece(t *testing.T, dir string) {
	if err := Stock(t.Context(), dir, Level{"last", 1}); err != nil {
		t.Fatal(err)
	}
	r := start(t, memoryShop, testConfig(dir))
	var buyers sync.WaitGroup
	for i := range 100 {
		buyers.Go(func() { r.place(t, fmt.Sprint("k", i), Item{"last", 1}) })
	}
	buyers.Wait()
	eventually(t, "99 orders cancelled", func() bool { return r.with(t, lifecycle.Cancelled) == 99 })
	eventually(t, "one order completed", func() bool { return r.with(t, lifecycle.Completed) == 1 })
	if bad := number(t, r.view.services.named("inventory").db.Reader, wrongStock); bad != 0 {
		t.Error("the stock is wrong")
	}
	if n := number(t, r.view.orders.db.Reader, `SELECT COUNT(*) FROM t_order WHERE status = 'CANCELLED' AND reason = 'no stock was reserved: 1 of last asked for, 0 available'`); n != 99 {
		t.Errorf("%d cancelled orders say why", n)
	}
}

func TestAnUnknownArticleBecomesADeadLetterThatStockAndReplayRepair(t *testing.T) {
	onEachDatabase(t, testAnUnknownArticleBecomesADeadLetterThatStockAndReplayRepair)
}

func testAnUnknownArticleBecomesADeadLetterThatStockAndReplayRepair(t *testing.T, dir string) {
	r := start(t, memoryShop, testConfig(dir))
	r.place(t, "k1", Item{"new", 1})
	store, _ := r.view.federation.Store("inventory")
	var dead []govern.DeadLetter
	eventually(t, "a dead letter", func() bool {
		var err error
		if dead, err = store.DeadLetters(t.Context(), govern.Filter{}); err != nil {
			t.Fatal(err)
		}
		return len(dead) == 1
	})
	id := OrderID("k1")
	if d := dead[0]; d.Key != id || d.Class != settle.ClassHandler || !strings.Contains(d.Reason, "sku new is not stocked") || d.Attempts != 3 {
		t.Errorf("dead letter %+v", d)
	}
	if open, err := r.view.unsettled(t.Context(), 10); err != nil || len(open) != 0 {
		t.Errorf("an order that a dead letter explains is listed: %v, %v", open, err)
	}
	if _, body := r.get(t, "/orders/"+id); !strings.Contains(body, "order.created is a dead letter") || !strings.Contains(body, "sku new is not stocked") {
		t.Errorf("shown as %s", body)
	}
	if err := Stock(t.Context(), dir, Level{"new", 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Replay(t.Context(), govern.Act{By: "test", Reason: "stocked"}, govern.ReplayOptions{}, dead[0].ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the order completed", func() bool { return r.with(t, lifecycle.Completed) == 1 })
}

func TestAViewOfADirectoryWithoutAShopIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Unsettled(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "holds none") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("looking made %v", left)
	}
}

func TestAWrongConfigIsRefusedBeforeAnythingStarts(t *testing.T) {
	for want, cfg := range map[string]Config{
		"no directory":                       {},
		`unknown role "order-apy"; the role`: {Dir: t.TempDir(), Roles: []string{"order-apy"}},
		`unknown outside system "bank"`:      {Dir: t.TempDir(), Outside: OutsideConfig{Addresses: map[string]string{"bank": "127.0.0.1:1"}}},
		"missing port":                       {Dir: t.TempDir(), Outside: OutsideConfig{Addresses: map[string]string{"coupons": "127.0.0.1"}}},
		"unknown scheme":                     {Dir: t.TempDir(), Roles: []string{RelayRole("order")}, BrokerURL: "kafke:"},
	} {
		err := Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q", err, want)
		}
		var wrong *dial.URLError
		if errors.As(err, &wrong) != (want == "unknown scheme") {
			t.Errorf("%v has the wrong type", err)
		}
	}
}
