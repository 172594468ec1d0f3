package cli_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/sqlite"
)

// deadShop makes a directory whose inventory has dead letters for orders
// o-1 … o-n, and closes it again.
func deadShop(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var items []settle.Item
	for i := range n {
		e := &settle.Event{ID: fmt.Sprint("e-", i+1), Type: "order.created", AggregateID: fmt.Sprint("o-", i+1), TraceID: "t-1", Payload: []byte(`{"sku":"CD"}`)}
		value := settle.AppendEnvelope(nil, e)
		items = append(items, settle.Item{
			Record: settle.Record{Position: int64(i + 1), Event: e, Raw: value, Key: e.AggregateID, At: settle.Coordinates{Topic: "orders", Offset: int64(i + 1)}},
			Intent: settle.IntentDie, Attempt: 3, Class: settle.ClassHandler, Cause: "sku CD is not stocked",
		})
	}
	_, err = db.Inbox().Apply(t.Context(), settle.Work{Group: "inventory", Items: items}, func(context.Context, *sql.Tx, int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatATerminalWouldObeyIsShownAsAnEscape(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	evil := "\x1b]0;owned\a\u009b31m\u202e"
	e := &settle.Event{ID: "e" + evil, Type: "t" + evil, AggregateID: "o" + evil, BizKey: "b" + evil, TraceID: "t-1", Payload: []byte(`"` + evil + `"`)}
	record := settle.Record{Position: 1, Event: e, Raw: settle.AppendEnvelope(nil, e), Key: e.AggregateID, At: settle.Coordinates{Topic: "orders", Offset: 1}}
	work := settle.Work{Group: "inventory", Items: []settle.Item{{Record: record, Intent: settle.IntentDie, Attempt: 1, Class: settle.ClassHandler, Cause: "first line" + evil + "\nsecond line " + evil + strings.Repeat("x", 2000)}}}
	_, err = db.Inbox().Apply(t.Context(), work, func(context.Context, *sql.Tx, int) error { return nil })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"dead", "list"}, {"dead", "show", "inventory:1"}, {"trail", "t-1"}, {"trail", "nothing" + evil}, {"dead", "show", "inventory:1" + evil}} {
		_, out, errs := run(t, append(args, "--dir", dir)...)
		if bad := strings.ContainsAny(out+errs, "\x1b\a\u009b\u202e") || !utf8.ValidString(out+errs); bad || !strings.Contains(out+errs, `\x1b]0;owned\a`) {
			t.Errorf("settle %v prints\n%q", args, out+errs)
		}
		if args[1] == "list" && (strings.Count(out, "\n") != 1 || strings.Contains(out, "second line")) {
			t.Errorf("a letter takes more than one line:\n%s", out)
		}
		if args[1] == "inventory:1" && !strings.Contains(out, "second line") {
			t.Errorf("show leaves part of the reason out:\n%s", out)
		}
	}
}

func TestALimitThatLeavesLettersOutSaysSo(t *testing.T) {
	dir := deadShop(t, 3)
	for _, args := range [][]string{{"dead", "list"}, {"dead", "list", "--json"}, {"dead", "replay", "--yes"}} {
		args = append(args, "--dir", dir)
		if out := must(t, cli.ExitOK, append(args, "--limit", "2")...); !strings.Contains(out, "only the first 2 of inventory are taken") {
			t.Errorf("settle %v prints\n%s", args, out)
		}
		if out := must(t, cli.ExitOK, args...); strings.Contains(out, "only the first") {
			t.Errorf("settle %v prints\n%s", args, out)
		}
	}
}

func must(t *testing.T, want int, args ...string) (out string) {
	t.Helper()
	code, out, errs := run(t, args...)
	if code != want {
		t.Fatalf("settle %v: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out + errs
}

func TestDeadLettersAreListedShownReplayedAndDiscarded(t *testing.T) {
	dir := deadShop(t, 4)
	if out := must(t, cli.ExitOK, "dead", "list", "--dir", dir); strings.Count(out, "sku CD is not stocked") != 4 {
		t.Errorf("list prints\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "show", "inventory:2", "--dir", dir); !strings.Contains(out, "order.created  e-2") || !strings.Contains(out, "payload      {\n               \"sku\": \"CD\"\n             }\n") {
		t.Errorf("show prints\n%s", out)
	}
	// Without --yes a filter only counts.
	if out := must(t, cli.ExitFinding, "dead", "replay", "--type", "order.created", "--dir", dir); !strings.Contains(out, "4 open dead letters are selected; say --yes") {
		t.Errorf("replay without --yes prints\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "replay", "inventory:1", "inventory:2", "--by", "ana", "--reason", "stocked", "--dir", dir); !strings.Contains(out, "2 done, 0 refused") {
		t.Errorf("replay prints\n%s", out)
	}
	if out := must(t, cli.ExitFinding, "dead", "replay", "inventory:1", "--dir", dir); !strings.Contains(out, "refused") {
		t.Errorf("a second replay prints\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "discard", "--key", "o-3", "--reason", "test order", "--yes", "--dir", dir); !strings.Contains(out, "1 done") {
		t.Errorf("discard prints\n%s", out)
	}
	var letters []govern.DeadLetter
	if err := json.Unmarshal([]byte(must(t, cli.ExitOK, "dead", "list", "--state", "any", "--json", "--dir", dir)), &letters); err != nil {
		t.Fatal(err)
	}
	states := ""
	for _, d := range letters {
		states += d.State + " "
	}
	if states != "REPLAYING REPLAYING DISCARDED OPEN " {
		t.Errorf("the states are %s", states)
	}
	out := must(t, cli.ExitOK, "trail", "o-1", "--dir", dir)
	for _, want := range []string{"missing", "dead", "sku CD is not stocked", "by ana, stocked"} {
		if !strings.Contains(out, want) {
			t.Errorf("the trail lacks %q:\n%s", want, out)
		}
	}
}

func TestEveryActOfAPersonIsAudited(t *testing.T) {
	dir := deadShop(t, 2)
	must(t, cli.ExitOK, "dead", "replay", "inventory:1", "--by", "ana", "--dir", dir)
	must(t, cli.ExitOK, "dead", "discard", "inventory:2", "--by", "ben", "--reason", "a test", "--dir", dir)
	must(t, cli.ExitOK, "pause", "inventory", "group", "inventory", "--by", "ana", "--dir", dir)
	must(t, cli.ExitOK, "resume", "inventory", "group", "inventory", "--by", "ben", "--dir", dir)
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	entries, err := db.Governance().Audit(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range entries {
		got += e.Actor + " " + e.Action + "; "
	}
	if want := "ana dlq.replay; ben dlq.discard; ana control.pause; ben control.resume; "; got != want {
		t.Errorf("the audit log says %s, want %s", got, want)
	}
	if err := govern.VerifyChain(t.Context(), db.Governance()); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeDoneIsSaidClearlyAndExitsAsItShould(t *testing.T) {
	dir := deadShop(t, 1)
	empty := t.TempDir()
	notADatabase := t.TempDir()
	if err := os.WriteFile(filepath.Join(notADatabase, "order.db"), []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if db, err := sql.Open("sqlite", filepath.Join(foreign, "diary.db")); err != nil {
		t.Fatal(err)
	} else if _, err := db.ExecContext(t.Context(), "CREATE TABLE page (text)"); err != nil {
		t.Fatal(err)
	} else if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUnreachable, "diary.db: it holds no events of Settle; it was left as it is", []string{"dead", "list", "--dir", foreign}},
		{cli.ExitUnreachable, "it holds no events of Settle", []string{"shop", "stock", "CD=1", "--dir", foreign}},
		{cli.ExitFinding, "nothing is known of", []string{"trail", "o-99", "--dir", dir}},
		{cli.ExitUsage, "takes one id", []string{"trail", "--dir", dir}},
		{cli.ExitUsage, "there is no database (NAME.db)", []string{"trail", "o-1", "--dir", empty}},
		{cli.ExitUnreachable, "order", []string{"trail", "o-1", "--dir", notADatabase}},
		{cli.ExitUsage, `unknown scheme "postgress"`, []string{"trail", "o-1", "--db", "order=postgress://localhost/x"}},
		{cli.ExitUsage, "there is no NAME before the URL", []string{"trail", "o-1", "--db", "sqlite:///tmp/x.db"}},
		{cli.ExitUsage, "there is no NAME before the URL", []string{"trail", "o-1", "--db", "postgres://u:geheim@localhost/x?search_path=a"}},
		{cli.ExitUnreachable, "no such file", []string{"trail", "o-1", "--db", "order=sqlite:///no/such/file.db"}},
		{cli.ExitFinding, "there is no dead letter inventory:99", []string{"dead", "show", "inventory:99", "--dir", dir}},
		{cli.ExitUsage, `there is no service "stock"; there are inventory`, []string{"dead", "show", "stock:1", "--dir", dir}},
		{cli.ExitUsage, "does not name a dead letter", []string{"dead", "show", "1", "--dir", dir}},
		{cli.ExitUsage, "needs --reason", []string{"dead", "discard", "inventory:1", "--dir", dir}},
		{cli.ExitUsage, "not both", []string{"dead", "replay", "inventory:1", "--class", "x", "--dir", dir}},
		{cli.ExitUsage, "--limit is 0", []string{"dead", "list", "--limit", "0", "--dir", dir}},
		{cli.ExitUsage, "KIND one of relay, topic, group, key", []string{"pause", "inventory", "grupo", "x", "--dir", dir}},
		{cli.ExitUsage, "relay takes no NAME", []string{"pause", "inventory", "relay", "x", "--dir", dir}},
		{cli.ExitFinding, "is not paused", []string{"resume", "inventory", "topic", "orders", "--dir", dir}},
		{cli.ExitUsage, "needs --reason", []string{"skip", "inventory", "e-1", "--dir", dir}},
		{cli.ExitFinding, "has no unsent event", []string{"skip", "inventory", "e-1", "--reason", "x", "--dir", dir}},
		{cli.ExitUsage, "needs --dir", []string{"shop"}},
		{cli.ExitUsage, "is not HOST:PORT", []string{"shop", "--dir", dir, "--listen", "8080"}},
		{cli.ExitUsage, `there is no port "99999"`, []string{"shop", "--dir", dir, "--listen", "127.0.0.1:99999"}},
		{cli.ExitUsage, `"all" stands alone`, []string{"demo", "--faults", "relay-kill,all"}},
		{cli.ExitUsage, "is not SKU=QUANTITY", []string{"shop", "stock", "CD=-1", "--dir", dir}},
		{cli.ExitUsage, "--events is 5", []string{"bench", "embedded", "--events", "5"}},
	} {
		code, out, errs := run(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(errs, "panic") || strings.Contains(errs+out, "geheim") {
			t.Errorf("settle %v: exit %d, want %d\n%s%s\nwant it to say %q", c.args, code, c.code, out, errs, c.says)
		}
	}
	if _, err := os.Stat("/no/such"); err == nil {
		t.Error("a database that did not exist was made")
	}
	if files, _ := os.ReadDir(empty); len(files) > 0 {
		t.Error("looking into an empty directory left files in it")
	}
	if files, _ := os.ReadDir(foreign); len(files) != 1 {
		t.Errorf("looking at another program's database left %d files beside it", len(files)-1)
	}
}

func TestASkippedEventIsPassedByTheRelayAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Append(t.Context(), tx, &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if out := must(t, cli.ExitOK, "skip", "order", "e-1", "--reason", "a test", "--dir", dir); !strings.Contains(out, "will be passed") {
		t.Errorf("skip prints %s", out)
	}
	controls, err := db.Log().Controls(t.Context())
	if err != nil || fmt.Sprint(controls.Skips) != "[e-1]" {
		t.Errorf("the relay is told to skip %v, %v", controls.Skips, err)
	}
}

func TestADirectoryMayHaveAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a #1? 100%")
	if err := os.Rename(deadShop(t, 1), dir); err != nil {
		t.Fatal(err)
	}
	if out := must(t, cli.ExitOK, "dead", "list", "--dir", dir); !strings.Contains(out, "inventory:1") {
		t.Errorf("list prints\n%s", out)
	}
}
