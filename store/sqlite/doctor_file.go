package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) writable(context.Context) (doctor.Diagnosis, error) {
	for _, path := range []string{x.path, filepath.Dir(x.path)} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			return doctor.Diagnose(doctor.Bad, fmt.Sprintf("this user may not write to %s: %v", path, err), "chown or chmod the file and its directory for the user that runs settle"), nil
		}
	}
	return doctor.Sound("the file and its directory"), nil
}

// remote are file systems on which locks or shared memory do not reach other
// machines, or not reliably.
func remote(magic uint32) string {
	switch magic {
	case 0x6969:
		return "NFS"
	case 0xff534d42, 0xfe534d42, 0x517b:
		return "SMB"
	case 0x00c36400:
		return "CephFS"
	case 0x01021997:
		return "9p"
	case 0x5346414f, 0x6b414653:
		return "AFS"
	case 0x47504653:
		return "GPFS"
	case 0x0bd00bd0:
		return "Lustre"
	}
	return ""
}

// File systems that are neither remote nor a disk.
const (
	inMemory = 0x01021994
	ramDisk  = 0x858458f6
	byFUSE   = 0x65735546
)

func (x *examination) fileSystem(context.Context) (doctor.Diagnosis, error) {
	v, err := x.cfg.Volume(x.path)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	fix := "move the file to a local disk while nobody has it open"
	switch name := remote(v.Magic); {
	case name != "":
		return doctor.Diagnose(doctor.Bad, "a network file system, "+name, fix), nil
	case v.Magic == inMemory, v.Magic == ramDisk:
		return doctor.Diagnose(doctor.Bad, "memory: nothing is left after a restart", fix), nil
	case v.Magic == byFUSE:
		return doctor.Diagnose(doctor.Warn, "FUSE: whether it keeps what was synced, and locks, is its own affair", fix), nil
	}
	return doctor.Sound("a local one"), nil
}

const (
	// tight is where one large transaction's journal may not fit any more.
	tight = 256 << 20
	// scarce is where it is time to look.
	scarce = 2 << 30
)

func (x *examination) freeSpace(context.Context) (doctor.Diagnosis, error) {
	v, err := x.cfg.Volume(x.path)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	found := fmt.Sprintf("%d MiB of %d MiB", v.Free>>20, v.Size>>20)
	fix := "free space, or delete events that were sent: keep_for of the relay bounds how long they stay"
	switch {
	case v.Free < tight:
		return doctor.Diagnose(doctor.Bad, found, fix), nil
	case v.Free < scarce && v.Free < v.Size/20:
		return doctor.Diagnose(doctor.Warn, found, fix), nil
	}
	return doctor.Sound("%s", found), nil
}

const quickCheck = `PRAGMA quick_check(5)`

func (x *examination) integrity(ctx context.Context) (doctor.Diagnosis, error) {
	lines, err := x.strings(ctx, quickCheck)
	fix := fmt.Sprintf("stop what uses it, then restore a backup, or: sqlite3 %s .recover | sqlite3 %[1]s.new", x.path)
	switch {
	case err != nil:
		return doctor.Diagnose(doctor.Bad, explain(err).Error(), fix), nil
	case len(lines) == 1 && lines[0] == "ok":
		return doctor.Sound("ok"), nil
	}
	return doctor.Diagnose(doctor.Bad, strings.Join(lines, "; "), fix), nil
}

// strings returns the first column of what a query finds.
func (x *examination) strings(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := x.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

const journalMode = `PRAGMA journal_mode`

func (x *examination) journalMode(ctx context.Context) (doctor.Diagnosis, error) {
	var mode string
	if err := x.db.QueryRowContext(ctx, journalMode).Scan(&mode); err != nil {
		return doctor.Diagnosis{}, err
	}
	if mode != "wal" {
		return doctor.Diagnose(doctor.Warn, mode, "PRAGMA journal_mode = WAL, while nobody else has the file open; and let no other program set it back"), nil
	}
	return doctor.Sound("wal"), nil
}

const synchronousMode = `PRAGMA synchronous`

// synchronous asks a connection that is opened as the store's writer is: the
// file does not remember it, so other programs have to set it themselves.
func (x *examination) synchronous(ctx context.Context) (doctor.Diagnosis, error) {
	db, err := x.openAsWriter()
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = db.Close() }()
	var mode int
	if err := db.QueryRowContext(ctx, synchronousMode).Scan(&mode); err != nil {
		return doctor.Diagnosis{}, err
	}
	return ofSynchronous(mode), nil
}

// full is what synchronous=FULL is numbered by; EXTRA is more.
const full = 2

func ofSynchronous(mode int) doctor.Diagnosis {
	if mode < full {
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("a commit is not on the disk when it returns (%d)", mode), "open the file with PRAGMA synchronous = FULL")
	}
	return doctor.Sound("FULL in Settle's connections; other programs that write to the file must say PRAGMA synchronous = FULL themselves")
}
