package settletest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	envCrash = "SETTLETEST_CRASH" // the test and point that a child process is to die at
	envDir   = "SETTLETEST_DIR"
)

// Dir returns a directory that a test shares with the process that Crash
// starts. It is removed with the test.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(envDir); dir != "" {
		return dir
	}
	return t.TempDir()
}

// Crash runs work in a process of its own, which kills itself (SIGKILL) at
// the n-th pass of a named crash point, and returns when it is dead. Pass the
// hook that work gets to relay.Config.Crash, consumer.Config.Crash or the
// store's. Whatever the test needs before must be done inside work or be safe
// to do twice: the process runs the test from its start. Use dir, from Dir,
// for files. It fails the test when the process ends without passing the point
// n times within a minute.
//
// Call it from a top-level test, not a subtest.
func Crash(t *testing.T, dir, point string, n int, work func(crash func(point string))) {
	t.Helper()
	name := t.Name() + " " + point
	if os.Getenv(envCrash) == name {
		var passes atomic.Int64
		work(func(at string) {
			if at == point && passes.Add(1) == int64(n) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the signal is on its way; nothing more may happen here
			}
		})
		os.Exit(0) // not killed: the parent fails the test
	}
	if os.Getenv(envCrash) != "" {
		return // the child of another Crash of this test passes by
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), envCrash+"="+name, envDir+"="+dir)
	child.Stdout, child.Stderr = &out, &out
	err := child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return
		}
	}
	t.Fatalf("the process did not die at pass %d of %s (%v):\n%s", n, point, err, out.Bytes())
}
