//go:build linux

// Package lossydisk is a file system that can lose power: a folder mounted by
// FUSE in which everything that was written but not synced is gone after a
// cut. SIGKILL proves nothing about fsync, because the kernel keeps what a
// dead process wrote; this does.
//
// Names (create, rename, unlink) are durable at once: a journaling file system
// is kinder to them than to data, and what is tested here is data.
package lossydisk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a mounted folder.
type Disk struct {
	backing, mount string
	server         *fuse.Server

	mu    sync.Mutex
	files map[uint64]*undo // by inode of the backing file
	stats Stats
}

// Stats tells that the disk really lost something.
type Stats struct {
	// Syncs counts fsync and fdatasync calls.
	Syncs int
	// LostFiles and LostBytes were taken back by Cut.
	LostFiles, LostBytes int
}

// undo takes a file back to what it was at its last sync.
type undo struct {
	file *os.File
	size int64 // at the last sync
	old  []extent
}

type extent struct {
	at   int64
	data []byte
}

// Mount serves the folder backing at mount. Both must exist. It needs the
// right to mount, which root has.
func Mount(backing, mount string) (*Disk, error) {
	d := &Disk{backing: backing, mount: mount, files: map[uint64]*undo{}}
	return d, d.serve()
}

func (d *Disk) serve() error {
	root, err := fs.NewLoopbackRoot(d.backing)
	if err != nil {
		return fmt.Errorf("mount %s: %w", d.mount, err)
	}
	top := &node{LoopbackNode: root.(*fs.LoopbackNode), disk: d}
	server, err := fs.Mount(d.mount, top, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "lossydisk", MaxWrite: 128 << 10}})
	if err != nil {
		return fmt.Errorf("mount %s: %w", d.mount, err)
	}
	d.server = server
	return nil
}

// Cut is the power cut: everything not synced is lost, and the folder is
// mounted again. Whoever had files open must be dead by then.
func (d *Disk) Cut() error {
	if err := d.server.Unmount(); err != nil {
		return fmt.Errorf("cut power: %w", err)
	}
	d.mu.Lock()
	for _, u := range d.files {
		d.lose(u)
	}
	d.files = map[uint64]*undo{}
	d.mu.Unlock()
	return d.serve()
}

func (d *Disk) lose(u *undo) {
	lost := 0
	for i := len(u.old) - 1; i >= 0; i-- {
		lost += len(u.old[i].data)
		_, _ = u.file.WriteAt(u.old[i].data, u.old[i].at)
	}
	if st, err := u.file.Stat(); err == nil && st.Size() != u.size {
		lost += int(max(st.Size()-u.size, 0))
		_ = u.file.Truncate(u.size)
	}
	_ = u.file.Close()
	if lost > 0 {
		d.stats.LostFiles++
		d.stats.LostBytes += lost
	}
}

// Stats returns what was counted so far.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Close unmounts; nothing more is lost.
func (d *Disk) Close() error {
	err := d.server.Unmount()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.files {
		_ = u.file.Close()
	}
	d.files = map[uint64]*undo{}
	return err
}

// beforeWrite keeps what a write, or a truncation to off, is about to destroy.
func (d *Disk) beforeWrite(f *os.File, off, length int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, err := d.undoOf(f)
	if err != nil || off >= u.size {
		return err // behind the synced end there is nothing to keep
	}
	old := make([]byte, min(length, u.size-off))
	n, err := u.file.ReadAt(old, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 {
		u.old = append(u.old, extent{at: off, data: old[:n]})
	}
	return nil
}

// undoOf returns the undo record of f's inode, beginning one if it was clean.
func (d *Disk) undoOf(f *os.File) (*undo, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	ino := st.Sys().(*syscall.Stat_t).Ino
	if u := d.files[ino]; u != nil {
		return u, nil
	}
	// A handle of our own outlives the writer's.
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	u := &undo{file: own, size: st.Size()}
	d.files[ino] = u
	return u, nil
}

// synced makes what was written to f durable.
func (d *Disk) synced(f *os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Syncs++
	st, err := f.Stat()
	if err != nil {
		return
	}
	ino := st.Sys().(*syscall.Stat_t).Ino
	if u := d.files[ino]; u != nil {
		_ = u.file.Close()
		delete(d.files, ino)
	}
}
