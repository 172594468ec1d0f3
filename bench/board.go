package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// board is memory that the process of a relay shares with the one that
// measures it. What was published is counted there, so that a killed process
// leaves its count behind.
type board struct {
	mem    []byte
	head   *boardHead
	counts []atomic.Uint32 // how often each event was published
	times  []atomic.Int64  // when it first was, in ns since 1970
}

type boardHead struct {
	// Expected events; the first Warm of them are not measured.
	Expected, Warm int64
	// Timed asks for times.
	Timed int64
	// Published counts events that were published at least once.
	Published atomic.Int64
	// Ready is set when the relay is about to begin.
	Ready atomic.Int64
	// WarmAt and DoneAt are when the warm-up and the last event were over.
	WarmAt, DoneAt atomic.Int64
	// WarmCPU and DoneCPU are the CPU time of the process then, in ns.
	WarmCPU, DoneCPU atomic.Int64
	// MaxRSS is the most memory that it has had, in bytes.
	MaxRSS atomic.Int64
}

const headBytes = 4096

// mapBoard opens the board in a file for so many events; it is made when new.
func mapBoard(path string, events int) (*board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size := headBytes + events*12 + 8
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &board{
		mem:    mem,
		head:   (*boardHead)(unsafe.Pointer(&mem[0])),
		times:  unsafe.Slice((*atomic.Int64)(unsafe.Pointer(&mem[headBytes])), events),
		counts: unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&mem[headBytes+events*8])), events),
	}, nil
}

func (b *board) close() error {
	mem := b.mem
	b.mem, b.head, b.counts, b.times = nil, nil, nil, nil
	return syscall.Munmap(mem)
}

// publish counts event n.
func (b *board) publish(n int) error {
	if n < 0 || n >= len(b.counts) {
		return errors.New("an event that nobody has stored")
	}
	if b.counts[n].Add(1) > 1 {
		return nil
	}
	if b.head.Timed != 0 {
		b.times[n].Store(time.Now().UnixNano())
	}
	switch b.head.Published.Add(1) {
	case b.head.Warm:
		b.head.WarmCPU.Store(cpuTime())
		b.head.WarmAt.Store(time.Now().UnixNano())
	case b.head.Expected:
		b.head.DoneAt.Store(time.Now().UnixNano())
		b.head.DoneCPU.Store(cpuTime())
		b.head.MaxRSS.Store(maxRSS())
	}
	return nil
}

// twice is how many events were published more than once.
func (b *board) twice() (events int) {
	for i := range b.counts {
		if b.counts[i].Load() > 1 {
			events++
		}
	}
	return events
}

func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// maxRSS is the most memory that this process has had; 0 where /proc is not
// Linux's. Rusage would count the parent's from before exec.
func maxRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(rest, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(kib), 10, 64)
	return n << 10
}
