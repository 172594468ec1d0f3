//go:build linux

package lossydisk

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node passes everything to the backing folder but data: files it opens keep
// an undo record.
type node struct {
	*fs.LoopbackNode
	disk *Disk
}

var (
	_ fs.NodeWrapChilder = (*node)(nil)
	_ fs.NodeCreater     = (*node)(nil)
	_ fs.NodeOpener      = (*node)(nil)
	_ fs.NodeSetattrer   = (*node)(nil)
)

// WrapChild makes every node of the loopback one of ours.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: ops.(*fs.LoopbackNode), disk: n.disk}
}

func (n *node) path() string {
	return filepath.Join(n.RootData.Path, n.Path(n.Root()))
}

// Create lets the loopback make the file and opens it again as ours.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child, made, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	if r, ok := made.(fs.FileReleaser); ok {
		r.Release(ctx)
	}
	f, err := os.OpenFile(filepath.Join(n.path(), name), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	return child, &file{f: f, disk: n.disk}, 0, 0
}

// Open opens for reading and writing, whatever was asked: the kernel has
// checked the rights, and undoing needs both.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, err := os.OpenFile(n.path(), os.O_RDWR, 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	h := &file{f: f, disk: n.disk}
	if flags&syscall.O_TRUNC != 0 {
		if errno := h.truncate(0); errno != 0 {
			_ = f.Close()
			return nil, 0, errno
		}
	}
	return h, 0, 0
}

// Setattr keeps what a truncation destroys; the rest is the loopback's.
func (n *node) Setattr(ctx context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f, err := os.OpenFile(n.path(), os.O_RDWR, 0)
		if err != nil {
			return fs.ToErrno(err)
		}
		errno := (&file{f: f, disk: n.disk}).truncate(int64(size))
		_ = f.Close()
		if errno != 0 {
			return errno
		}
		in.Valid &^= fuse.FATTR_SIZE
	}
	return n.LoopbackNode.Setattr(ctx, nil, in, out)
}

// file is an open file of the disk.
type file struct {
	f    *os.File
	disk *Disk
}

var (
	_ fs.FileReader   = (*file)(nil)
	_ fs.FileWriter   = (*file)(nil)
	_ fs.FileFsyncer  = (*file)(nil)
	_ fs.FileFlusher  = (*file)(nil)
	_ fs.FileReleaser = (*file)(nil)
)

func (f *file) Read(_ context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultFd(f.f.Fd(), off, len(buf)), 0
}

func (f *file) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if err := f.disk.beforeWrite(f.f, off, int64(len(data))); err != nil {
		return 0, fs.ToErrno(err)
	}
	n, err := f.f.WriteAt(data, off)
	return uint32(n), fs.ToErrno(err)
}

func (f *file) truncate(size int64) syscall.Errno {
	if err := f.disk.beforeWrite(f.f, size, math.MaxInt64-size); err != nil {
		return fs.ToErrno(err)
	}
	return fs.ToErrno(f.f.Truncate(size))
}

func (f *file) Fsync(context.Context, uint32) syscall.Errno {
	f.disk.synced(f.f)
	return 0
}

// Flush is a close, not a sync.
func (f *file) Flush(context.Context) syscall.Errno { return 0 }

func (f *file) Release(context.Context) syscall.Errno { return fs.ToErrno(f.f.Close()) }
