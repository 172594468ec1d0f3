//go:build unix

package shop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another process runs the shop in a directory.
var ErrInUse = errors.New("another runner uses the directory")

// DirLock is the right to run the shop in a directory. It ends with the
// process, however that ends.
type DirLock struct{ file *os.File }

// LockDir takes a directory for this process, without waiting; ErrInUse if
// another one has it.
func LockDir(dir string) (*DirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "shop.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
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
