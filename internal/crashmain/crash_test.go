package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/internal/services"
)

// The test binary is crashmain, too.
func TestMain(m *testing.M) {
	if os.Getenv("SETTLE_TEST_MAIN") != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// points are all crash points, with what their process does there.
var points = []string{
	"order.before_commit", "order.after_commit",
	"relay.after_poll", "relay.before_publish", "relay.after_publish", "relay.before_commit", "relay.after_commit",
	"consume.after_fetch", "consume.before_apply", "consume.after_ask", "consume.in_handler", "consume.before_commit", "consume.after_commit", "consume.after_ack",
	"replay.before_commit", "replay.after_commit",
}

func TestEveryCrashPointOfTheCodeIsKilledAt(t *testing.T) {
	call := regexp.MustCompile(`(?i)\bcrash\([^"\n]*"((?:order|relay|consume|replay)\.[a-z_]+)"`)
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range call.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if !found[p] {
			t.Errorf("%s is nowhere in the code", p)
		}
	}
	for p := range found {
		if !slices.Contains(points, p) {
			t.Errorf("%s is not among the points that are killed at", p)
		}
	}
}

// TestNothingIsLostDoubledOrReorderedWhenProcessesDieAtEveryCrashPoint runs a
// whole demo in which each point kills one process, once, on each kind of
// database.
func TestNothingIsLostDoubledOrReorderedWhenProcessesDieAtEveryCrashPoint(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db string) {
		orders := 80
		if db != "" { // where all of it takes longer
			orders = 24
		}
		dieAt(t, db, orders, everyPoint())
	})
}

func everyPoint() map[string]int {
	passes := map[string]int{}
	for _, p := range points {
		passes[p] = 2
		if strings.HasPrefix(p, "replay.") { // a person replays once
			passes[p] = 1
		}
	}
	return passes
}

// TestNothingIsLostDoubledOrReorderedWhenAProcessDiesAtTheNthPass takes the
// points one by one, early and late in a batch's life.
func TestNothingIsLostDoubledOrReorderedWhenAProcessDiesAtTheNthPass(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes minutes: SETTLE_TEST_ALL=1 runs it")
	}
	onEachDatabase(t, func(t *testing.T, db string) {
		passes, orders := 5, 200
		if db != "" { // where a demo takes longer to begin
			passes, orders = 2, 40
		}
		for _, p := range points {
			for n := 1; n <= passes && (n == 1 || !strings.HasPrefix(p, "replay.")); n++ {
				t.Run(fmt.Sprintf("%s:%d", p, n), func(t *testing.T) { dieAt(t, db, orders, map[string]int{p: n}) })
			}
		}
	})
}

// onEachDatabase runs f for files, for the test's PostgreSQL and for its MySQL
// server; db is what --db says of it. They wait more than they work, so they
// run beside each other.
func onEachDatabase(t *testing.T, f func(t *testing.T, db string)) {
	for _, kind := range []struct{ name, variable, service string }{
		{"SQLite", "", ""}, {"PostgreSQL", "SETTLE_TEST_POSTGRES", "postgres"}, {"MySQL", "SETTLE_TEST_MYSQL", "mariadb"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			at := ""
			if kind.variable != "" {
				at = serverURL(t, kind.variable, kind.service)
			}
			f(t, at)
		})
	}
}

// serverURL is that of a server as --db takes it: on MySQL without a database,
// because each service gets one.
func serverURL(t *testing.T, variable, service string) string {
	t.Helper()
	u, err := url.Parse(services.URL(t, variable, service))
	if err != nil {
		t.Fatalf("%s can't be read", variable)
	}
	if u.Scheme != "postgres" {
		u.Path = "/"
	}
	return u.String()
}

// dieAt runs a demo in which a process dies at the given pass of each point.
func dieAt(t *testing.T, db string, orders int, passes map[string]int) {
	t.Helper()
	marks, dir := t.TempDir(), filepath.Join(t.TempDir(), "shop")
	var plan []string
	for p, n := range passes {
		plan = append(plan, fmt.Sprintf("%s:%d:%s", p, n, filepath.Join(marks, p)))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"demo", "--orders", fmt.Sprint(orders), "--faults", "poison", "--seed", "1", "--json", "--timeout", "10m", "--dir", dir}
	if db != "" {
		args = append(args, "--db", "${SETTLE_TEST_SHOP_DB}")
		t.Cleanup(func() {
			if err := shop.DropDatabase(context.WithoutCancel(t.Context()), dir); err != nil {
				t.Error(err)
			}
		})
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "SETTLE_TEST_MAIN=1", "SETTLE_TEST_SHOP_DB="+db, "SETTLE_CRASH="+strings.Join(plan, ","))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var r drill.Report
	if bad := json.Unmarshal(out.Bytes(), &r); bad != nil || err != nil {
		t.Fatalf("demo: %v, %v: %+v\n%s", err, bad, r.Failures(), errs.String())
	}
	if r.Orders.Accepted != int64(orders) || !r.Settled() || len(r.Failures()) > 0 {
		t.Errorf("%+v\n%v", r.Orders, r.Failures())
	}
	for p := range passes {
		if _, err := os.Stat(filepath.Join(marks, p)); err != nil {
			t.Errorf("nobody died at %s", p)
		}
	}
}

func TestAPlanThatCanNotBeReadIsRefused(t *testing.T) {
	for _, text := range []string{"relay.after_poll", "relay.after_poll:0:f", "relay.after_poll:x:f"} {
		if _, err := parsePlan(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
