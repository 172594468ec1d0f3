package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/internal/pgserver"
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
// whole demo in which each point kills one process, once.
func TestNothingIsLostDoubledOrReorderedWhenProcessesDieAtEveryCrashPoint(t *testing.T) {
	dieAt(t, 80, everyPoint())
}

func TestNothingIsLostDoubledOrReorderedOnPostgreSQLWhenProcessesDieAtEveryCrashPoint(t *testing.T) {
	dieAt(t, 80, everyPoint(), "--db", pgserver.Own(t).URL(""))
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
	for _, p := range points {
		for n := 1; n <= 5 && (n == 1 || !strings.HasPrefix(p, "replay.")); n++ {
			t.Run(fmt.Sprintf("%s:%d", p, n), func(t *testing.T) { dieAt(t, 200, map[string]int{p: n}) })
			if n > 3 || !strings.HasPrefix(p, "relay.") {
				continue
			}
			t.Run(fmt.Sprintf("%s:%d on PostgreSQL", p, n), func(t *testing.T) {
				dieAt(t, 200, map[string]int{p: n}, "--db", pgserver.Own(t).URL(""))
			})
		}
	}
}

// dieAt runs a demo in which a process dies at the given pass of each point.
func dieAt(t *testing.T, orders int, passes map[string]int, args ...string) {
	t.Helper()
	marks := t.TempDir()
	var plan []string
	for p, n := range passes {
		plan = append(plan, fmt.Sprintf("%s:%d:%s", p, n, filepath.Join(marks, p)))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"demo", "--orders", fmt.Sprint(orders), "--faults", "poison", "--seed", "1", "--json", "--timeout", "2m"}, args...)...)
	cmd.Env = append(os.Environ(), "SETTLE_TEST_MAIN=1", "SETTLE_CRASH="+strings.Join(plan, ","))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s\n%s", err, out.String(), errs.String())
	}
	var r drill.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
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
