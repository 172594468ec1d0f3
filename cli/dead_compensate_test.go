package cli_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/settletest"
	"github.com/settlemq/settle/store/sqlite"
)

// consumeDead runs the inventory of a dead shop, whose orders can't be stocked
// but, with undo, given up, until events have ended.
func consumeDead(t *testing.T, dir string, undo bool, events ...string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	broker := memory.New(memory.Config{})
	rec := settletest.Record(db.Inbox())
	c := consumer.New("inventory", broker, rec, consumer.Config{})
	c.Handle("order.created", func(context.Context, *sql.Tx, *settle.Event) error {
		return settle.Permanent(errors.New("sku CD is not stocked"))
	})
	if undo {
		c.Compensate("order.created", func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	}
	stop := settletest.Run(t, c)
	for _, id := range events {
		rec.Await(t, id, "inventory")
	}
	stop()
	if err := errors.Join(broker.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDeadLettersAreCompensatedAndTheTrailSaysSo(t *testing.T) {
	dir := deadShop(t, 3)
	for _, args := range [][]string{{"inventory:1"}, {"--key", "o-1", "--yes"}} {
		if out := must(t, cli.ExitUsage, append([]string{"dead", "compensate", "--dir", dir}, args...)...); !strings.Contains(out, "needs --reason") {
			t.Errorf("without a reason it prints\n%s", out)
		}
	}
	if out := must(t, cli.ExitFinding, "dead", "compensate", "--type", "order.created", "--reason", "x", "--dir", dir); !strings.Contains(out, "3 open dead letters are selected; say --yes to compensate") {
		t.Errorf("without --yes it prints\n%s", out)
	}
	var outcomes []struct{ Result, Why string }
	out := must(t, cli.ExitFinding, "dead", "compensate", "inventory:1", "inventory:1", "--by", "ana", "--reason", "never made again", "--json", "--dir", dir)
	if err := json.Unmarshal([]byte(out), &outcomes); err != nil || len(outcomes) != 2 || outcomes[0].Result != "done" || outcomes[1].Why != "it is COMPENSATING, not OPEN" {
		t.Errorf("it prints %s (%v)", out, err)
	}
	if out := must(t, cli.ExitOK, "dead", "compensate", "--key", "o-2", "--yes", "--by", "ana", "--reason", "never made again", "--dir", dir); !strings.Contains(out, "compensate: 1 done, 0 refused") {
		t.Errorf("it prints\n%s", out)
	}
	consumeDead(t, dir, true, "e-1", "e-2")
	if out := must(t, cli.ExitOK, "dead", "list", "--state", govern.StateCompensated, "--dir", dir); strings.Count(out, "COMPENSATED") != 2 {
		t.Errorf("list prints\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "show", "inventory:1", "--dir", dir); !strings.Contains(out, "closed") || !strings.Contains(out, "by ana") {
		t.Errorf("show does not say who closed it:\n%s", out)
	}
	out = must(t, cli.ExitOK, "trail", "o-1", "--dir", dir)
	for _, want := range []string{"compensate  inventory              by ana, never made again", "compensated inventory              by ana: never made again"} {
		if !strings.Contains(out, want) {
			t.Errorf("the trail lacks %q:\n%s", want, out)
		}
	}
}

func TestALetterThatNobodyCanCompensateIsOpenAgainAndSaysWhy(t *testing.T) {
	dir := deadShop(t, 1)
	must(t, cli.ExitOK, "dead", "compensate", "inventory:1", "--reason", "never made again", "--dir", dir)
	consumeDead(t, dir, false, "e-1")
	want := "group inventory has no compensation for event type order.created; before that: sku CD is not stocked"
	if out := must(t, cli.ExitOK, "dead", "list", "--dir", dir); !strings.Contains(out, want) {
		t.Errorf("list prints\n%s\nwant %s", out, want)
	}
	must(t, cli.ExitOK, "dead", "discard", "inventory:1", "--reason", "nothing to undo", "--dir", dir)
}

func TestAPauseOfWhatIsNotKnownIsDoneAndSaysSo(t *testing.T) {
	dir := deadShop(t, 1)
	for _, c := range []struct {
		kind, name string
		known      bool
	}{{"group", "inventory", true}, {"group", "inventroy", false}, {"topic", "ordres", false}, {"key", "inventory/o-9", true}} {
		out := must(t, cli.ExitOK, "pause", "inventory", c.kind, c.name, "--dir", dir)
		says := strings.Contains(out, "that service knows no "+c.kind+" "+c.name+" yet")
		if says == c.known || !strings.Contains(out, "paused "+c.kind+" "+c.name) {
			t.Errorf("pause %s %s prints\n%s", c.kind, c.name, out)
		}
		must(t, cli.ExitOK, "resume", "inventory", c.kind, c.name, "--dir", dir)
	}
}
