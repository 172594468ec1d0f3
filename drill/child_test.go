package drill_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/drill"
)

// The test binary is the child, too: what it does is named in SETTLE_TEST_ROLE.
func TestMain(m *testing.M) {
	switch os.Getenv("SETTLE_TEST_ROLE") {
	case "":
		os.Exit(m.Run())
	case "serve": // announce the process id, end when told or when the parent has gone
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		ctx, unfollow := drill.FollowParent(ctx, os.Stdin)
		fmt.Printf("pid %d\n", os.Getpid())
		<-ctx.Done()
		unfollow()
		fmt.Println("ended in order")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		_, unfollow := drill.FollowParent(context.Background(), os.Stdin)
		defer unfollow()
		fmt.Printf("pid %d\n", os.Getpid())
		select {}
	case "fail":
		fmt.Println("no disk today")
		os.Exit(7)
	case "parent": // two children, one of them stopped, then wait to be killed
		ctx := context.Background()
		for _, role := range []string{"serve", "stubborn"} {
			log := filepath.Join(os.Getenv("SETTLE_TEST_DIR"), role)
			c := drill.NewChild(drill.ChildConfig{Name: role, Env: []string{"SETTLE_TEST_ROLE=" + role}, Log: log})
			go func() { _ = c.Run(ctx) }()
			if role == "stubborn" {
				go func() {
					for len(pids(log)) == 0 {
						time.Sleep(5 * time.Millisecond)
					}
					_ = c.Pause(ctx, time.Hour)
				}()
			}
		}
		select {}
	}
}

// child returns a child that plays role, running until the test ends, and
// the path of its log.
func child(t *testing.T, role string, change func(*drill.ChildConfig)) (*drill.Child, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	cfg := drill.ChildConfig{
		Name: role, Env: []string{"SETTLE_TEST_ROLE=" + role}, Log: log,
		MinWait: time.Millisecond, MaxWait: 5 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	c := drill.NewChild(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run %s: %v", role, err)
		}
		for _, pid := range pids(log) {
			if alive(pid) {
				t.Errorf("process %d of %s is left over", pid, role)
			}
		}
	})
	return c, log
}

// pids returns the process ids announced in a log so far.
func pids(log string) []int {
	b, _ := os.ReadFile(log)
	var all []int
	for _, line := range strings.Split(string(b), "\n") {
		if n, err := strconv.Atoi(strings.TrimPrefix(line, "pid ")); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// alive reports whether a process runs; one that only waits to be reaped by
// whoever inherited it does not.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && state(pid) != "Z" }

// eventually waits for something that another process does.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func TestAKilledChildIsStartedAgain(t *testing.T) {
	c, log := child(t, "serve", nil)
	eventually(t, 10*time.Second, "first start", func() bool { return len(pids(log)) == 1 && c.Lives().Started == 1 })
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	if alive(pids(log)[0]) {
		t.Error("Kill returned while the process lived")
	}
	eventually(t, 10*time.Second, "second start", func() bool { return len(pids(log)) == 2 })
	if l := c.Lives(); l.Failed != 0 || l.Started != 2 {
		t.Errorf("after a kill of ours: %+v", l)
	}
}

func TestAStoppedChildEndsInOrderAndStaysDown(t *testing.T) {
	c, log := child(t, "serve", nil)
	eventually(t, 10*time.Second, "first start", func() bool { return len(pids(log)) == 1 && c.Lives().Started == 1 })
	began := time.Now()
	if err := c.Stop(300 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(log); !strings.Contains(string(b), "ended in order") {
		t.Errorf("log says %q", b)
	}
	if err := c.Kill(0); !errors.Is(err, drill.ErrNotRunning) {
		t.Errorf("kill of a child that is down: %v", err)
	}
	eventually(t, 10*time.Second, "second start", func() bool { return len(pids(log)) == 2 })
	if down := time.Since(began); down < 300*time.Millisecond {
		t.Errorf("it was down for %s only", down)
	}
}

func TestAChildThatIgnoresToBeAskedIsKilledAndThatIsNoOrderlyStop(t *testing.T) {
	c, log := child(t, "stubborn", func(cfg *drill.ChildConfig) { cfg.Grace = 50 * time.Millisecond })
	eventually(t, 10*time.Second, "first start", func() bool { return len(pids(log)) == 1 && c.Lives().Started == 1 })
	if err := c.Stop(0); err == nil {
		t.Error("Stop says that it ended in order")
	}
	if alive(pids(log)[0]) {
		t.Error("it lives")
	}
}

func TestAPausedChildStandsStillAndGoesOn(t *testing.T) {
	c, log := child(t, "serve", nil)
	eventually(t, 10*time.Second, "start", func() bool { return len(pids(log)) == 1 && c.Lives().Started == 1 })
	pid := pids(log)[0]
	done := make(chan error, 1)
	go func() { done <- c.Pause(t.Context(), 100*time.Millisecond) }()
	eventually(t, 10*time.Second, "it stands still", func() bool { return state(pid) == "T" })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "it goes on", func() bool { return state(pid) == "S" || state(pid) == "R" })
	go func() { done <- c.Pause(t.Context(), time.Hour) }()
	eventually(t, 10*time.Second, "it stands still", func() bool { return state(pid) == "T" })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a pause that the process did not outlive counts")
	}
}

// state is the process state letter of Linux.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

func TestAChildThatKeepsFailingIsGivenUpWithItsLastWords(t *testing.T) {
	c := drill.NewChild(drill.ChildConfig{
		Name: "fail", Env: []string{"SETTLE_TEST_ROLE=fail"}, Log: filepath.Join(t.TempDir(), "log"),
		MinWait: time.Millisecond, MaxWait: time.Millisecond, GiveUp: 3,
	})
	err := c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "3 times") || !strings.Contains(err.Error(), "no disk today") {
		t.Errorf("got %v", err)
	}
	if l := c.Lives(); l.Failed != 3 || l.Started != 3 || l.Last != "exit status 7" {
		t.Errorf("%+v", l)
	}
}

func TestAwaitReturnsWhenTheProbeAnswers(t *testing.T) {
	asked := 0
	c, _ := child(t, "serve", func(cfg *drill.ChildConfig) {
		cfg.Ready = func(context.Context) error {
			if asked++; asked < 3 {
				return errors.New("not yet")
			}
			return nil
		}
	})
	if err := c.Await(t.Context()); err != nil || asked != 3 {
		t.Errorf("after %d probes: %v", asked, err)
	}
	never := drill.NewChild(drill.ChildConfig{Ready: func(context.Context) error { return net.ErrClosed }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := never.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNoChildIsLeftTwoSecondsAfterTheParentWasKilled(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), "SETTLE_TEST_ROLE=parent", "SETTLE_TEST_DIR="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	serve, stubborn := filepath.Join(dir, "serve"), filepath.Join(dir, "stubborn")
	eventually(t, 10*time.Second, "two children, one of them stopped", func() bool {
		p := pids(stubborn)
		return len(pids(serve)) == 1 && len(p) == 1 && state(p[0]) == "T"
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	left := append(pids(serve), pids(stubborn)...)
	eventually(t, 2*time.Second, "children end", func() bool { return !alive(left[0]) && !alive(left[1]) })
}

func TestTheEndOfItsInputEndsAChildWithoutTheKernelsHelp(t *testing.T) {
	for _, role := range []string{"serve", "stubborn"} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "SETTLE_TEST_ROLE="+role)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_ = in.Close()
		_ = cmd.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %s to end", role, took)
		}
	}
}
