package main

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// lookAround describes the machine and the server.
func lookAround(ctx context.Context, s *server) (machine, error) {
	m := machine{CPU: field("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if kb, _, found := strings.Cut(field("/proc/meminfo", "MemTotal"), " "); found {
		n, _ := strconv.ParseFloat(kb, 64)
		m.MemoryGB = n / (1 << 20)
	}
	err := s.admin.QueryRow(ctx, `SELECT current_setting('server_version'), 'fsync ' || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit'),
 (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), $1))`, s.outer.PgConn().PID()).Scan(&m.Postgres, &m.Durable, &m.OtherSessions)
	if err != nil {
		return m, err
	}
	m.Postgres, _, _ = strings.Cut(m.Postgres, " ")
	m.CommitMS, err = commitCost(ctx, s)
	return m, err
}

func commitCost(ctx context.Context, s *server) (ms float64, err error) {
	db, err := s.create(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer func() {
		if dropped := db.drop(); err == nil {
			err = dropped
		}
	}()
	if _, err := db.conn.Exec(ctx, `CREATE TABLE commits (n integer)`); err != nil {
		return 0, err
	}
	costs := make([]float64, 200)
	for i := range costs {
		began := time.Now()
		if _, err := db.conn.Exec(ctx, `INSERT INTO commits VALUES ($1)`, i); err != nil {
			return 0, err
		}
		costs[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	return median(costs), nil
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
