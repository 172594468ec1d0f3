package cli_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// unproved ends a test that this machine can't run: loudly, and as a failure in
// CI.
func unproved(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: " + why)
}

// onlyLong skips a test of the long run.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("takes long: SETTLE_TEST_ALL=1 runs it")
	}
}

// TestAnEndInOrderUnderLoadLeavesNothingToSendAgain: what is written while no
// program runs is sent by the next, in order.
func TestAnEndInOrderUnderLoadLeavesNothingToSendAgain(t *testing.T) {
	t.Parallel()
	l := relayOf(t, postgresSchema(t), 1)
	var first int
	l.under(4, func() {
		l.sent(200)
		l.serves[0].term(t)
		first = len(logOf(t, l.broker))
		backlog := l.inserted() + 300
		for l.inserted() < backlog {
			time.Sleep(20 * time.Millisecond)
		}
		l.start(1)
		l.sent(100)
	})
	a := l.settled()
	a.again = int(l.published()) - (a.first - first)
	a.want(t, false, 0)
}

// inserted counts what writers know to be there.
func (l *relayed) inserted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func TestASlowNetworkToTheServerPilesUpNoConnections(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	own := pgserver.Own(t)
	link := services.NewLink(t, own.Host())
	u, err := url.Parse(own.URL("slow"))
	if err != nil {
		t.Fatal("the server's URL can't be read")
	}
	u.Host = link.Addr()
	l := relayOf(t, u.String(), 2)
	l.under(4, func() {
		l.sent(100)
		link.Delay(time.Second)
		for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(time.Second) {
			// Two programs, four writers, and this question.
			own.Await("SELECT count(*) <= 2 * 40 + 4 + 1 FROM pg_stat_activity WHERE backend_type = 'client backend'")
		}
		link.Delay(0)
		l.sent(100)
	})
	l.settled().want(t, false, 4*inFlight)
}

func TestLargeRowsAreSentInBoundedMemory(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	at := postgresSchema(t)
	l := relayOf(t, at, 1)
	const rows, size = 400, 800 << 10
	execPostgres(t, at, fmt.Sprintf(`INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload)
SELECT 'large-' || i, 'x', 'k-' || i %% 7, convert_to('{"n":' || i || ',"pad":"' || repeat('x', %d) || '"}', 'UTF8') FROM generate_series(1, %d) i`, size, rows))
	l.settled().want(t, false, inFlight)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.serves[0].cmd.Process.Pid))
	if err != nil {
		unproved(t, "the kernel does not tell how much memory a process has had")
	}
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(most)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB of rows, %d MiB of memory at most", rows*size>>20, kB>>10)
	if kB>>10 > rows*size>>20*2/3 {
		t.Errorf("%d MiB of memory for %d MiB of rows", kB>>10, rows*size>>20)
	}
}

// TestAFullTablespaceStopsProducersAndNothingElse: the row and its event fail
// together.
func TestAFullTablespaceStopsProducersAndNothingElse(t *testing.T) {
	onlyLong(t)
	if os.Getuid() != 0 {
		unproved(t, "only root can mount a small file system")
	}
	own := pgserver.Own(t)
	l := relayOf(t, own.URL("tight"), 1)
	small := filepath.Join(filepath.Dir(own.DataDir()), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small).CombinedOutput(); err != nil {
		unproved(t, "a small file system can't be mounted here: "+string(out))
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	info, err := os.Stat(own.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(small, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	own.Exec("CREATE TABLESPACE small LOCATION '"+small+"'", "ALTER TABLE tight.t_outbox_event SET TABLESPACE small")
	l.under(4, func() {
		for before := -1; before < l.inserted(); time.Sleep(time.Second) {
			before = l.inserted()
		}
		h, _ := l.serves[0].read()
		if got := h.Sources["order"]; got.State != server.StateLeading || got.Published == 0 {
			t.Errorf("with a full tablespace it stands so: %+v", got)
		}
		if out, err := exec.Command("mount", "-o", "remount,size=64m", small).CombinedOutput(); err != nil {
			t.Fatalf("mount: %v: %s", err, out)
		}
		l.sent(100)
	})
	l.settled().want(t, false, inFlight)
}

// TestADiskThatFailsASyncTakesNothingBackThatWasSent: the server stops itself,
// starts again, and may keep a row whose writer was told that it failed.
func TestADiskThatFailsASyncTakesNothingBackThatWasSent(t *testing.T) {
	onlyLong(t)
	installed(t, "strace", "it makes a system call fail")
	own := pgserver.Own(t)
	l := relayOf(t, own.URL("sync"), 1)
	l.under(4, func() {
		for range 3 {
			l.sent(100)
			fail := exec.Command("strace", append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=3"}, attach(t, own)...)...)
			if err := fail.Start(); err != nil {
				t.Fatal(err)
			}
			own.AwaitAnew()
			_ = fail.Process.Signal(syscall.SIGTERM) // it may have ended with what it watched
			_ = fail.Wait()
			l.sent(100)
		}
	})
	l.settled().want(t, false, 3*2*inFlight)
}

func attach(t *testing.T, own *pgserver.Server) (args []string) {
	t.Helper()
	for _, pid := range own.PIDs() {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	return args
}
