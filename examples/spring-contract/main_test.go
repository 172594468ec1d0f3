package springcontract_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/settlemq/settle/cli"
)

// TestMain makes the test's binary the settle program too.
func TestMain(m *testing.M) {
	if os.Getenv("SETTLE_TEST_MAIN") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Hooks{}))
}

// program is a settle command line as a process of its own.
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

// command runs a settle command line, which must end with the exit code, and returns
// what it printed.
func command(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := program(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("settle %q ends with %d, want %d\n%s", args, got, code, out.String())
	}
	return out.String()
}

// lockedBuffer takes what a process prints while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
