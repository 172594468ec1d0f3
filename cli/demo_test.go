package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// The test binary is the program, too: a demo starts itself as its children.
func TestMain(m *testing.M) {
	switch os.Getenv("SETTLE_TEST_MAIN") {
	case "":
		os.Exit(m.Run())
	case asProducer:
		os.Exit(produce(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Hooks{}))
}

// program is a command line as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "SETTLE_TEST_MAIN=1", "TMPDIR="+t.TempDir())
	return cmd
}

// output runs a command line and returns what it printed and its exit code.
func output(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	cmd := program(t, args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

func TestADemoUnderAllFaultsProvesThatNothingWasLostDoubledOrReordered(t *testing.T) {
	seeds := 1
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		seeds = 20
	}
	two := make(chan struct{}, 2) // at a time: more would only slow each other down
	var all sync.WaitGroup
	for seed := range seeds {
		two <- struct{}{}
		all.Go(func() {
			defer func() { <-two }()
			t.Run("seed "+strconv.Itoa(seed+1), func(t *testing.T) { demoUnderAllFaults(t, seed+1) })
		})
	}
	all.Wait()
}

func demoUnderAllFaults(t *testing.T, seed int) {
	code, out, errs := output(t, "demo", "--orders", "300", "--seed", strconv.Itoa(seed), "--json", "--timeout", "3m")
	if code != cli.ExitOK {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	var r drill.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	o := r.Orders
	if o.Accepted != 300 || o.Completed+o.Cancelled != 300 || o.Unsettled != 0 || o.Cancelled == 0 || o.Completed == 0 || o.Refused != 2 {
		t.Errorf("orders %+v", o)
	}
	if n := int(r.DeadLettersOpen); n != len(r.Letters) || n > 2 || slices.ContainsFunc(r.Letters, func(l drill.Letter) bool { return l.Service != "marketing" }) {
		t.Errorf("%d dead letters open, %+v; only the coupon system's may be left", n, r.Letters)
	}
	if !strings.Contains(errs, "the aim for so many orders under all faults on two cores is 1m0s: ") {
		t.Errorf("the aim is not told: %s", errs)
	}
	if m := r.Money; m.Net != m.Completed || m.Net == 0 || m.Captured-m.Refunded != m.Net {
		t.Errorf("money %+v", m)
	}
	if len(r.Faults) != len(drill.FaultNames()) {
		t.Errorf("faults %+v", r.Faults)
	}
	for _, f := range r.Faults {
		if f.Times < 1 {
			t.Errorf("%s happened %d times", f.Name, f.Times)
		}
	}
	d := r.Deliveries
	if d.Duplicate == 0 || d.Retried == 0 || d.Dead == 0 || d.Applied < 2000 || d.Received < d.Applied {
		t.Errorf("deliveries %+v", d)
	}
	if bad := r.Failures(); len(bad) > 0 || r.Seed != uint64(seed) || r.Duration <= 0 || r.Latency.OrderToCompleted.P99 <= 0 {
		t.Errorf("%v, %+v", bad, r)
	}
}

// TestADemoFindsOrdersThatWereAcknowledgedBeforeTheyWereDurable plants the bug
// into the order entry and kills it while clients wait.
func TestADemoFindsOrdersThatWereAcknowledgedBeforeTheyWereDurable(t *testing.T) {
	source, err := filepath.Abs("../examples/shop/order_committer.go")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	sound := "\terr := c.together(ctx, batch)\n\tif err"
	buggy := "\tfor _, p := range batch {\n\t\tp.done <- nil\n\t}\n\ttime.Sleep(30 * time.Millisecond)\n\t_ = c.together(ctx, batch)\n\treturn\n\tvar err error\n\tif err"
	if !bytes.Contains(code, []byte(sound)) {
		t.Fatal("the code to be broken has changed")
	}
	dir := t.TempDir()
	planted, overlay, binary := filepath.Join(dir, "planted.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "settle")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: planted}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(planted, bytes.Replace(code, []byte(sound), []byte(buggy), 1), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "../cmd/settle").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary, "demo", "--orders", "400", "--faults", "order-kill", "--seed", "1", "--timeout", "1m")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != cli.ExitFinding || !bytes.Contains(out, []byte("H1 is violated")) {
		t.Errorf("exit %d\n%s", got, out)
	}
}

func TestADemoRefusesWhatItCanNotDoBeforeItStartsAnything(t *testing.T) {
	used := t.TempDir()
	bad := filepath.Join(used, "bad.csv")
	if err := os.WriteFile(bad, []byte("customer_id,date,quantity,amount\n1,1997-01-01,1,11.77\n2,1997-99-01,1,12.00\n3,1997-01-02,x,1.00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(used, "short.csv")
	if err := os.WriteFile(short, []byte("customer_id,date,amount\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		wrong string
		right string
	}{
		{[]string{"--faults", "relay-kil"}, `"relay-kil"`, "relay-kill, consumer-kill"},
		{[]string{"--scenario", "rain"}, `"rain"`, "everything, flash-sale, coupon-outage, payment-limbo"},
		{[]string{"--report", used}, "--report", "is a directory"},
		{[]string{"--orders", "-1"}, "--orders is -1", "1 or more"},
		{[]string{"--orders", "0"}, "--orders is 0", "1 or more"},
		{[]string{"--orders", "many"}, `"many"`, "--seed"},
		{[]string{"--timeout", "-1s"}, "--timeout is -1s", "more than 0"},
		{[]string{"--broker", "redis://token@h:4222"}, "--broker", "kafka://"},
		{[]string{"--broker", "nats://token@h"}, `"h" is not host:port`, "nats://"},
		{[]string{"--broker", "kafka://h"}, `"h" is not host:port`, "kafka://"},
		{[]string{"--broker", "kafka://h:1", "--faults", "relay-kill,broker-stop"}, "no broker-stop", "not the demo's own"},
		{[]string{"--broker", "kafka://h:1?tls=true", "--faults", "lost-ack"}, "no lost-ack", "encrypted"},
		{[]string{"--broker", "amqps://u:p@h:1", "--faults", "lost-ack"}, "no lost-ack", "encrypted"},
		{[]string{"--broker", "rabbitmq://h:1"}, "no user:password", "rabbitmq://"},
		{[]string{"--broker", "kafka://h:1,i:1,j:1", "--faults", "relay-kill,broker-node-kill"}, "broker-node-kill needs --nodes", "scripts/services"},
		{[]string{"--faults", "leader-switch"}, "leader-switch needs --nodes", "scripts/services"},
		{[]string{"--nodes", "true"}, "--nodes", "--broker"},
		{[]string{"--broker", "kafka://h:1", "--nodes", "true"}, "names 1 node", "need 3"},
		{[]string{"--broker", "kafka://h:1,i:1,j:1", "--nodes", "true"}, "no node at h:1", "NAME running URL"},
		{[]string{"--broker", "kafka://h:1,i:1,j:1", "--nodes", "echo and die >&2; false"}, "echo and die", "and die"},
		{[]string{"--broker", "kafka://h:1,i:1,j:1", "--nodes", "echo a paused kafka://h:1 #"}, "node a is paused", "all have to run"},
		{[]string{"--broker", "rabbitmq://u:s3cret@h:1,i:1,j:1", "--nodes", "printf 'a running h:1 http://h:2\nb running amqp://u:s3cret@i:1/\nc running j:1 http://j:2\n' #"}, "no management API of the node at i:1", "fourth word"},
		{[]string{"--broker", "rocketmq://h:1,i:1,j:1", "--nodes", "true"}, "not with RocketMQ", "wait for it"},
		{[]string{"--broker", "rocketmq://h"}, `"h" is not host:port`, "rocketmq://"},
		{[]string{"--dir", used}, "in use", "settle shop --dir"},
		{[]string{"--input", "/no/such.csv"}, "/no/such.csv", "no such file"},
		{[]string{"--input", bad}, "line 3: date", "line 4: quantity"},
		{[]string{"--input", short}, "quantity", "customer_id, date, quantity, amount"},
		{[]string{"--skip-bad"}, "--skip-bad", "--input"},
		{[]string{"now"}, `"now"`, "takes no argument"},
	} {
		code, out, errs := run(t, append([]string{"demo"}, c.args...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.wrong) || !strings.Contains(errs, c.right) || out != "" {
			t.Errorf("demo %v: exit %d, %q, %q; want exit 2 naming %s and %s", c.args, code, out, errs, c.wrong, c.right)
		}
	}
	if code, _, errs := run(t, "role", "brokker"); code != cli.ExitUsage || !strings.Contains(errs, "order-api") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestADemoTakesAFileOfOrdersAndPassesOverItsBadRowsWhenAsked(t *testing.T) {
	t.Parallel() // it waits for timers
	path := filepath.Join(t.TempDir(), "orders.csv")
	text := "\ufeffcustomer_id,date,quantity,amount\r\n1,1997-01-01,1,11.77\r\nbroken\r\n2,1997-01-02,3,20.00\r\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := output(t, "demo", "--input", path, "--skip-bad", "--faults", "none", "--json")
	if code != cli.ExitOK || !strings.Contains(out, `"accepted": 2`) || !strings.Contains(errs, "1 bad row of ") {
		t.Errorf("exit %d, %s, %s", code, out, errs)
	}
}

func TestADemoThatDoesNotSettleInTimeExitsWith3AndStillReports(t *testing.T) {
	code, out, errs := output(t, "demo", "--orders", "60000", "--faults", "none", "--timeout", "6s")
	if code != cli.ExitUnreachable || !strings.Contains(out, "not everything settled in time") || !strings.Contains(errs, "not settled within 6s") {
		t.Errorf("exit %d, %s, %s", code, out, errs)
	}
}

// children returns the processes whose command line names dir.
func children(dir string, not int) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		b, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != not && bytes.Contains(b, []byte(dir)) {
			found = append(found, pid)
		}
	}
	return found
}

func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

// underway starts a demo and returns it once it has taken some orders.
func underway(t *testing.T, dir string, orders int64) *exec.Cmd {
	t.Helper()
	cmd := program(t, "demo", "--orders", "1000", "--faults", "all", "--dir", dir)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	db, err := drill.OpenService("order", "sqlite://"+filepath.Join(dir, "order.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	go func() { _, _ = io.Copy(io.Discard, said) }()
	watch := drill.NewWatch([]*drill.Service{db}, nil)
	within(t, 30*time.Second, "orders are taken", func() bool {
		s, err := watch.State(t.Context())
		return err == nil && s.Accepted > orders
	})
	return cmd
}

func TestAfterTheParentWasKilledNoChildIsLeftAndAShopSettlesWhatWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	parent := underway(t, dir, 350) // poisoned ones among them
	if n := len(children(dir, parent.Process.Pid)); n < 5 {
		t.Fatalf("%d children", n)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	within(t, 2*time.Second, "children end", func() bool { return len(children(dir, parent.Process.Pid)) == 0 })

	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // some customers never pay: their orders end by their timers
	defer stop()
	ended := make(chan error, 1)
	goOn := program(t, "shop", "--dir", dir, "--listen", "127.0.0.1:0")
	if err := goOn.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- goOn.Wait() }()
	defer func() { _ = goOn.Process.Kill() }()
	for settled := false; !settled; {
		select {
		case err := <-ended:
			t.Fatalf("the shop ended: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		left, err := shop.Unsettled(ctx, dir)
		switch {
		case ctx.Err() != nil:
			t.Fatal("not everything is settled or explained by a dead letter within a minute")
		case err != nil:
			t.Fatal(err)
		case len(left) > 0:
			t.Logf("%d orders are not settled; the first: %+v", len(left), left[0])
		}
		settled = len(left) == 0
	}
	if err := goOn.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
}

func TestAnInterruptEndsAllProcessesOfADemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	parent := underway(t, dir, 50)
	if err := parent.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if code := parent.ProcessState.ExitCode(); code != cli.ExitUnreachable {
		t.Errorf("exit %d", code)
	}
	if left := children(dir, parent.Process.Pid); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestTheTrailOfARepairedOrderShowsCauseRepairAndEffect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	code, out, errs := output(t, "demo", "--orders", "40", "--faults", "poison", "--dir", dir)
	if code != cli.ExitOK || !strings.Contains(out, "$ settle dead replay") || !strings.Contains(out, "replay: 2 done, 0 refused") || !strings.Contains(out, "compensate: 1 done, 0 refused") {
		t.Fatalf("exit %d, %s, %s", code, out, errs)
	}
	if !regexp.MustCompile(`(?m)^H8 +1 +0 `).MatchString(out) {
		t.Errorf("no compensation was examined: %s", out)
	}
	var letters []struct {
		Class string `json:"class"`
		Key   string `json:"aggregate_id"`
	}
	if _, out, _ := output(t, "dead", "list", "--dir", dir, "--state", "REPLAYED", "--json"); json.Unmarshal([]byte(out), &letters) != nil || len(letters) != 2 {
		t.Fatalf("letters: %s", out)
	}
	code, out, errs = output(t, "trail", "--dir", dir, letters[0].Key, "--json")
	var journey struct {
		Steps []struct{ Stage, Note, By string } `json:"steps"`
	}
	if err := json.Unmarshal([]byte(out), &journey); err != nil || code != cli.ExitOK {
		t.Fatalf("exit %d, %v, %s, %s", code, err, out, errs)
	}
	at := func(stage string) int {
		return slices.IndexFunc(journey.Steps, func(s struct{ Stage, Note, By string }) bool { return s.Stage == stage })
	}
	dead, replay := at("dead"), at("replay")
	if dead < 0 || replay < dead || !strings.Contains(journey.Steps[dead].Note, "not stocked") || journey.Steps[replay].By != "demo" {
		t.Errorf("trail: %s", out)
	}
	effect := slices.ContainsFunc(journey.Steps[max(replay, 0):], func(s struct{ Stage, Note, By string }) bool { return s.Stage == "applied" })
	if !effect {
		t.Errorf("no effect after the repair: %s", out)
	}
}

func TestATemporaryDirectoryIsKeptWhenTheProofDoesNotHold(t *testing.T) {
	cmd := program(t, "demo", "--orders", "2000", "--faults", "none", "--timeout", "300ms")
	tmp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	out, _ := cmd.CombinedOutput()
	left, _ := filepath.Glob(filepath.Join(tmp, "settle-demo-*", "logs", "*.log"))
	if cmd.ProcessState.ExitCode() != cli.ExitUnreachable || len(left) == 0 || !strings.Contains(string(out), tmp) || !strings.Contains(string(out), "kept in") {
		t.Errorf("exit %d, left %v\n%s", cmd.ProcessState.ExitCode(), left, out)
	}
}

func TestAShopSaysThatDeadLettersWaitForAPerson(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "settle.yml"), []byte("consumer: {retry: {base: 10ms, attempts: 1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "shop", "--dir", dir, "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ordered := false
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		line := lines.Text()
		if entry, open := strings.CutPrefix(line, "the shop is open: "); open {
			entry, _, _ = strings.Cut(entry, " ")
			order(t, entry)
			ordered = true
		}
		if strings.Contains(line, "1 dead letter waits for a person: settle dead list --dir "+dir) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			break
		}
	}
	for lines.Scan() { // until it has ended
	}
	if err := cmd.Wait(); err != nil || !ordered || lines.Err() != nil {
		t.Errorf("ends with %v, %v", err, lines.Err())
	}
}

// order places one for an article that nobody stocks.
func order(t *testing.T, entry string) {
	t.Helper()
	body := `{"customerId":"c-1","amount":"1.00","items":[{"sku":"CD-NEW","quantity":1}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, entry, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k-1")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("the order is answered %s", answer.Status)
	}
}

func TestATemporaryDirectoryIsRemovedUnlessKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			t.Parallel() // it waits for timers
			args := []string{"demo", "--orders", "10", "--faults", "none"}
			if keep {
				args = append(args, "--keep")
			}
			cmd := program(t, args...)
			tmp := t.TempDir()
			cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
			out, err := cmd.CombinedOutput()
			left, _ := filepath.Glob(filepath.Join(tmp, "settle-demo-*"))
			if err != nil || (len(left) == 1) != keep || strings.Contains(string(out), "settle trail --dir") != keep {
				t.Errorf("%v, left %v\n%s", err, left, out)
			}
		})
	}
}
