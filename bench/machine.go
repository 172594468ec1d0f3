package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// lookAround describes the machine.
func lookAround() machine {
	m := machine{CPU: field("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if kb, _, found := strings.Cut(field("/proc/meminfo", "MemTotal"), " "); found {
		n, _ := strconv.ParseFloat(kb, 64)
		m.MemoryGB = n / (1 << 20)
	}
	return m
}

// commitCost is the median of own commits.
func commitCost(ctx context.Context, s server) (ms float64, err error) {
	p, err := s.create(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.remove(p)) }()
	if err := p.exec(ctx, `CREATE TABLE commits (n integer)`); err != nil {
		return 0, err
	}
	costs := make([]float64, 200)
	for i := range costs {
		began := time.Now()
		if err := p.exec(ctx, `INSERT INTO commits VALUES (1)`); err != nil {
			return 0, err
		}
		costs[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	return median(costs), nil
}

// ticks per second of /proc: Linux has had 100 on all machines that matter.
const ticks = 100

// cpuOf is the time of the processor, in seconds, of a process or a thread with
// such a folder in /proc.
func cpuOf(folder string) float64 {
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / ticks
}

// field is the first value of a name in a file of /proc; "" where there is none.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
