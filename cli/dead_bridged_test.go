package cli_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/sqlite"
)

// bridgedShop is a folder with a dead letter of a consumer that is not ours.
func bridgedShop(t *testing.T) (dir string, mark func(bridge.Mark)) {
	t.Helper()
	dir = t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	lease, err := db.Bridge().Lead(t.Context(), "stock", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte(`{"total":1}`)}
	died := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := bridge.Letter{
		Identity: "a", Group: "stock", At: bridge.Place{Topic: "orders-stock-dlt", Offset: 7}, From: bridge.Place{Topic: "orders", Partition: 3, Offset: 9},
		Record: settle.Record{Event: e, Raw: settle.AppendEnvelope(nil, e), Key: "o-1"}, Class: settle.ClassHandler,
		Exception: "java.lang.IllegalStateException", Message: "no\x1b[31m stock", Trace: strings.Repeat("at x.Y.z\n", 30), Attempts: 4, DiedAt: died,
		History: []bridge.Death{{Place: bridge.Place{Queue: "q"}, Reason: "expired", Count: 2, At: died}}, To: []bridge.Target{bridge.ToGroup},
	}
	if _, err := db.Bridge().Keep(t.Context(), lease, []bridge.Letter{l}); err != nil {
		t.Fatal(err)
	}
	return dir, func(m bridge.Mark) {
		if err := db.Bridge().Mark(context.Background(), lease, []bridge.Mark{m}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADeadLetterOfAConsumerThatIsNotOursIsShownReplayedAndDiscarded(t *testing.T) {
	dir, mark := bridgedShop(t)
	has := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it does not print %q:\n%s", w, out)
			}
		}
	}
	has(must(t, cli.ExitOK, "dead", "list", "--group", "stock", "--dir", dir), "order:1", "handler_error", "order.created", "stock (not ours)")
	out := must(t, cli.ExitOK, "dead", "show", "order:1", "--dir", dir)
	has(out, "stock, which is not ours; it died 2026-03-01T12:00:00Z, bridged 20", "came from    orders[3]@9", "found at     orders-stock-dlt[0]@7",
		"died before  expired at queue q, 2 times", "thrown       at x.Y.z", "can go to    group (it alone)", `"total": 1`)
	if strings.Contains(out, "\x1b") || strings.Count(out, "at x.Y.z") != 12 {
		t.Errorf("a terminal would obey it, or the trace is too long:\n%s", out)
	}
	var shown struct{ Bridged govern.Bridged }
	if err := json.Unmarshal([]byte(must(t, cli.ExitOK, "dead", "show", "order:1", "--json", "--dir", dir)), &shown); err != nil || shown.Bridged.From.Partition != 3 || shown.Bridged.Exception == "" {
		t.Errorf("as JSON it is %+v, %v", shown, err)
	}
	has(must(t, cli.ExitFinding, "dead", "compensate", "order:1", "--reason", "x", "--dir", dir), "its consumer is not ours")
	has(must(t, cli.ExitUsage, "dead", "replay", "order:1", "--to", "moon", "--dir", dir), "group or origin")
	has(must(t, cli.ExitFinding, "dead", "replay", "order:1", "--to", "origin", "--dir", dir), "it does not tell where it came from")
	has(must(t, cli.ExitOK, "dead", "replay", "order:1", "--by", "ana", "--reason", "stocked", "--dir", dir), "replay: 1 done")
	mark(bridge.Mark{ID: 1, Result: bridge.ResultGivenUp, Tries: 3, Cause: "there is no queue"})
	has(must(t, cli.ExitOK, "dead", "show", "order:1", "--dir", dir), "not replayed to group after 3 tries: there is no queue")
	has(must(t, cli.ExitOK, "dead", "discard", "order:1", "--by", "ana", "--reason", "sold out", "--dir", dir), "discard: 1 done")
	has(must(t, cli.ExitOK, "trail", "o-1", "--dir", dir), "dead at the consumer group stock (not ours), bridged at 20", "by ana, stocked", "by ana, sold out")
}

func TestOnlyWhatIsNotOursGoesAnywhereButToItsOwnPlace(t *testing.T) {
	dir := deadShop(t, 1)
	if out := must(t, cli.ExitFinding, "dead", "replay", "inventory:1", "--to", "origin", "--dir", dir); !strings.Contains(out, "consumers that are not ours") {
		t.Errorf("it prints\n%s", out)
	}
}
