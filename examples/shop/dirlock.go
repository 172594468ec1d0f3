//go:build unix

package shop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another process runs the shop in a directory.
var ErrInUse = errors.New("another runner uses the directory")

// DirLock is the right to run the shop in a directory. It ends with the
// process, however that ends.
type DirLock struct{ file *os.File }

// lockWait is how long a directory is waited for: a process that was killed is
// gone before the kernel has closed its files.
const lockWait = time.Second

// LockDir takes a directory for this process; ErrInUse if another one has it
// and keeps it for a second.
func LockDir(dir string) (*DirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "shop.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for late := time.Now().Add(lockWait); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(late); {
		time.Sleep(20 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		return &DirLock{file: f}, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	return nil, fmt.Errorf("lock directory %s: %w", dir, err)
}

// Close gives the directory back.
func (l *DirLock) Close() error { return l.file.Close() }
