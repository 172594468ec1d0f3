package cli_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/store/sqlite"
)

// openEntry runs a shop's entry in dir with room for few requests.
func openEntry(t *testing.T, dir string) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- shop.Run(ctx, shop.Config{Dir: dir, Roles: []string{shop.RoleOrderAPI}, Listen: "127.0.0.1:0", Queue: 16, MaxBatch: 8, Ready: func(addr string) { ready <- addr }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-ready:
		return "http://" + addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

// While somebody holds the order database for half a second, three times what
// fits arrives: what does not fit is shed with a clear answer, and what was
// accepted, that and nothing else, is stored whole.
func TestOverloadShedsAndNeverHalfAccepts(t *testing.T) {
	dir := t.TempDir()
	url := openEntry(t, dir)
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := time.AfterFunc(500*time.Millisecond, func() { _ = tx.Rollback() })
	defer held.Stop()
	code, out, errs := run(t, "load", "--url", url, "--rate", "300", "--for", "1s", "--json")
	if code != cli.ExitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var r drill.LoadReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Due != 300 || r.Accepted+r.Shed != 300 || r.Shed < 50 || r.Accepted < 50 {
		t.Errorf("of 300 orders %d were accepted and %d shed: %+v", r.Accepted, r.Shed, r)
	}
	if r.ShedSeconds.P50 > 0.25 {
		t.Errorf("who is shed waits %v s for the answer", r.ShedSeconds.P50)
	}
	var orders, events, whole int
	const stored = `SELECT (SELECT count(*) FROM t_order), (SELECT count(*) FROM t_outbox_event),
		(SELECT count(*) FROM t_order o WHERE EXISTS (SELECT 1 FROM t_order_item i WHERE i.order_id = o.order_id) AND
			(SELECT count(*) FROM t_outbox_event e WHERE e.aggregate_id = o.order_id AND e.event_type IN ('order.created', 'order.payment_due')) = 2)`
	if err := db.Reader().QueryRow(stored).Scan(&orders, &events, &whole); err != nil {
		t.Fatal(err)
	}
	if orders != r.Accepted || events != 2*orders || whole != orders {
		t.Errorf("%d orders were accepted; stored are %d orders, %d events, %d orders with lines, event and timer", r.Accepted, orders, events, whole)
	}
}

func TestALoadOfAShopThatIsNotThereExitsWith3(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if out := must(t, cli.ExitUnreachable, "load", "--url", gone.URL, "--rate", "20", "--for", "200ms"); !strings.Contains(out, "is the shop running?") {
		t.Errorf("it prints %s", out)
	}
}

func TestALoadStocksWhatItOrdersAndRefusesWhatCanNotBe(t *testing.T) {
	dir := t.TempDir()
	url := openEntry(t, dir)
	out := must(t, cli.ExitOK, "load", "--url", url, "--rate", "50", "--for", "400ms", "--stock", dir)
	if !strings.Contains(out, "accepted   20 (") {
		t.Errorf("it prints %s", out)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var articles int
	if err := db.Reader().QueryRow(`SELECT count(*) FROM t_stock`).Scan(&articles); err != nil || articles == 0 {
		t.Errorf("%d articles are stocked, %v", articles, err)
	}
	if code, _, errs := run(t, "load", "--stock", os.TempDir()+"/no-such-shop"); code != cli.ExitUsage || !strings.Contains(errs, "with --stock") || strings.Contains(errs, "--dir") {
		t.Errorf("exit %d, %q", code, errs)
	}
	for _, args := range [][]string{
		{"load", "--url", "127.0.0.1:8080"}, {"load", "--rate", "0"}, {"load", "--rate", "-5"}, {"load", "--for", "0s"}, {"load", "--rate", "NaN"}, {"load", "--rate", "Inf"},
		{"load", "--rate", "1e9", "--for", "1h"},
	} {
		if code, _, errs := run(t, args...); code != cli.ExitUsage || errs == "" {
			t.Errorf("settle %v: exit %d, %q", args, code, errs)
		}
	}
}
