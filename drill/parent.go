package drill

import (
	"context"
	"io"
	"os"
	"sync"
	"time"
)

// FollowParent returns a context that is done when the parent process has
// gone, told by the end of in, which only the parent holds open. A process
// that is still there a second and a half later is ended with exit code 3,
// whatever it is doing: a child must not be left behind.
//
// The returned function stops the following.
func FollowParent(ctx context.Context, in io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() { // lasts as long as the process unless the parent ends first
		_, _ = io.Copy(io.Discard, in)
		cancel()
		select {
		case <-stopped:
		case <-time.After(1500 * time.Millisecond):
			os.Exit(3)
		}
	}()
	return ctx, sync.OnceFunc(func() { close(stopped); cancel() })
}
