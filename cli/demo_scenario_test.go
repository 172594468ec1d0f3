package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
)

func TestAFlashSaleSellsWhatThereIsAndCancelsTheRest(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := output(t, "demo", "--orders", "200", "--scenario", "flash-sale", "--seed", "2", "--json", "--report", report)
	if code != cli.ExitOK {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	var r drill.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	// A fifth of two thirds of the orders find the article: more than half fail.
	if sold := r.Orders.CancelledFor["stock"]; sold < 50 || r.Orders.Completed < 20 {
		t.Errorf("orders %+v", r.Orders)
	}
	if len(r.Letters) != 0 || !strings.Contains(errs, "The report is in "+report) {
		t.Errorf("letters %+v, %s", r.Letters, errs)
	}
}

func TestAFaultForWhichNoOrderIsFitIsLeftOutUnlessItWasNamed(t *testing.T) {
	t.Parallel() // it waits for timers
	code, out, errs := output(t, "demo", "--orders", "3", "--scenario", "coupon-outage", "--seed", "1", "--json")
	var r drill.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit %d: %v\n%s", code, err, errs)
	}
	stuck := func(f drill.FaultCount) bool { return f.Name == drill.FaultCouponStuck }
	if slices.ContainsFunc(r.Faults, stuck) || !strings.Contains(errs, "Left out, since none of these orders is fit for it: coupon-stuck.") {
		t.Errorf("faults %+v\n%s", r.Faults, errs)
	}
	code, out, errs = output(t, "demo", "--orders", "3", "--faults", "coupon-stuck", "--seed", "1", "--json", "--dir", filepath.Join(t.TempDir(), "shop"))
	if code != cli.ExitFinding || !strings.Contains(errs, "take --orders 200 or more") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
}

// TestTheLettersADemoLeavesAreRepairedByTheCommandsItPrints follows them while
// the shop stays.
func TestTheLettersADemoLeavesAreRepairedByTheCommandsItPrints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	cmd := program(t, "demo", "--orders", "150", "--scenario", "coupon-outage", "--seed", "5", "--dir", dir, "--stay")
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	replay := regexp.MustCompile(`dead replay (marketing:\d+) --dir \S+ --reason '([^']+)'`)
	var text strings.Builder
	var letter []string
	for lines := bufio.NewScanner(said); letter == nil || !strings.Contains(text.String(), "the shop is open"); {
		if !lines.Scan() {
			t.Fatalf("it has ended\n%s", text.String())
		}
		_, _ = text.WriteString(lines.Text() + "\n")
		if m := replay.FindStringSubmatch(lines.Text()); m != nil {
			letter = m
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if code, out, errs := output(t, "dead", "replay", letter[1], "--dir", dir, "--reason", letter[2]); code != cli.ExitOK {
		t.Fatalf("exit %d, %s, %s", code, out, errs)
	}
	within(t, 20*time.Second, "the letter is replayed", func() bool {
		_, out, _ := output(t, "dead", "show", letter[1], "--dir", dir)
		return strings.Contains(out, "REPLAYED")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the shop that stayed ends with %v", err)
	}
}

// As root, a page for /dev/null would take the device's place.
func TestAReportTakesTheNameOfNothingButAFileAndLeavesNoneWhenTheDemoDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--report", os.DevNull}, "not a regular file"},
		{[]string{"--report", dir}, "is a directory"},
		{[]string{"--report", filepath.Join(dir, "none", "r.html")}, "no such file"},
		{[]string{"--report", filepath.Join(dir, "r.html"), "--skip-bad"}, "--skip-bad"},
		{[]string{"--report", filepath.Join(dir, "r.html"), "--dir", "/"}, "in use"},
	} {
		code, _, errs := run(t, append([]string{"demo", "--orders", "1"}, c.args...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("demo %v: exit %d, %q; want exit 2 and %q", c.args, code, errs, c.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there is %v, %v; want nothing", left, err)
	}
}
