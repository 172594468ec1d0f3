package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// queue lines up the writers of one file, over all processes, on a lock file.
// SQLite itself lets writers poll for its lock, and one that writes without
// pause starves the others; a blocking lock wakes the next one at once.
//
// acquire is called by one goroutine at a time: the writer pool has one
// connection.
type queue struct {
	file *os.File

	mu sync.Mutex
	// pending is where the goroutine that waits in the kernel reports; nil if
	// there is none. It can't be called back, so it outlives a caller that
	// gave up and gives the lock back itself.
	pending chan error
	wanted  bool
	closed  bool
}

func openQueue(path string) (*queue, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &queue{file: f}, nil
}

// acquire blocks until this process may write, or until ctx is done.
func (q *queue) acquire(ctx context.Context) error {
	wait, err := q.begin()
	if wait == nil {
		return err
	}
	select {
	case err := <-wait:
		return err
	case <-ctx.Done():
		return q.abandon(ctx.Err())
	}
}

// begin takes the lock if it is free. Otherwise it returns where to wait.
func (q *queue) begin() (<-chan error, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, os.ErrClosed
	}
	if q.pending == nil {
		err := flock(q.file, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		q.pending = make(chan error, 1)
		go q.wait(q.pending)
	}
	q.wanted = true
	return q.pending, nil
}

// wait ends when the kernel grants the lock; Close does not wait for it,
// because a stopped process may hold the lock for ever.
func (q *queue) wait(report chan<- error) {
	err := flock(q.file, unix.LOCK_EX)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = nil
	switch {
	case q.wanted:
		q.wanted = false
		report <- err
	case err == nil && !q.closed:
		_ = flock(q.file, unix.LOCK_UN)
	}
}

func (q *queue) abandon(cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wanted {
		q.wanted = false
		return fmt.Errorf("wait for other writers of the file: %w", cause)
	}
	// The lock came at the same instant.
	_ = flock(q.file, unix.LOCK_UN)
	return fmt.Errorf("wait for other writers of the file: %w", cause)
}

func (q *queue) release() {
	// The kernel refuses to unlock only a file that is closed, and that has
	// unlocked it.
	_ = flock(q.file, unix.LOCK_UN)
}

// close gives the lock back if it is held.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	return q.file.Close()
}

func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) {
		for {
			if locked = unix.Flock(int(fd), how); !errors.Is(locked, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, locked)
}
