//go:build linux

package lossydisk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/settlemq/settle/internal/lossydisk"
)

// mount returns a disk, where it is mounted, and the folder behind it. The
// process of a disk must not map its files: a page fault that only the process
// itself can serve stops it for good.
func mount(t *testing.T) (d *lossydisk.Disk, at, behind string) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("mounting a file system needs root")
		}
		t.Skip("SKIPPED: mounting a file system needs root")
	}
	at, behind = t.TempDir(), t.TempDir()
	d, err := lossydisk.Mount(behind, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, at, behind
}

func write(t *testing.T, path, text string, flags int, sync bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestACutLosesWhatWasNotSyncedAndKeepsWhatWas(t *testing.T) {
	d, at, _ := mount(t)
	path := filepath.Join(at, "log")
	write(t, path, "synced.", 0, true)
	write(t, path, "lost", os.O_APPEND, false)
	write(t, filepath.Join(at, "never-synced"), "gone", 0, false)
	write(t, filepath.Join(at, "overwritten"), "first first", 0, true)
	write(t, filepath.Join(at, "overwritten"), "second", 0, false)
	write(t, filepath.Join(at, "truncated"), "whole", 0, true)
	if err := os.Truncate(filepath.Join(at, "truncated"), 2); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "synced.lost" {
		t.Fatalf("before the cut the log is %q", got)
	}
	if err := d.Cut(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"log": "synced.", "never-synced": "", "overwritten": "first first", "truncated": "whole"} {
		if got, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(got) != want {
			t.Errorf("after the cut %s is %q, %v; want %q", name, got, err, want)
		}
	}
	if s := d.Stats(); s.LostFiles != 4 || s.LostBytes == 0 {
		t.Errorf("stats are %+v, want four files that lost bytes", s)
	}
}

func TestASecondCutAfterASyncLosesNothing(t *testing.T) {
	d, at, _ := mount(t)
	path := filepath.Join(at, "log")
	want := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	write(t, path, string(want), 0, true)
	for range 2 {
		if err := d.Cut(); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d are left", len(got), len(want))
	}
}
