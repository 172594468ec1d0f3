package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// ErrKilled means that a command was ended by SIGKILL.
var ErrKilled = errors.New("killed")

// Command runs our own binary with args, as a person would, and returns what
// it printed. An error is ErrKilled, or says how it failed.
func Command(ctx context.Context, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", args[0], err)
	}
	runtime.LockOSThread() // see Child.Run
	defer runtime.UnlockOSThread()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.SysProcAttr = childAttr()
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	printed := strings.TrimRight(out.String(), "\n")
	if err == nil {
		return printed, nil
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ctx.Err() == nil && s.Signaled() && s.Signal() == syscall.SIGKILL {
		err = ErrKilled
	}
	return printed, fmt.Errorf("run %s: %w", strings.Join(args, " "), err)
}
