package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is the PostgreSQL that everything runs on, with one database for the
// run. Trials have a schema each: to make and drop a database costs a
// checkpoint.
type server struct {
	name  string // of the database
	url   *url.URL
	outer *pgx.Conn // to the database that was named
	admin *pgx.Conn // to ours
	count int
}

func connect(ctx context.Context, at string) (_ *server, err error) {
	s := &server{name: fmt.Sprintf("settle_bench_%d", os.Getpid())}
	if s.url, err = url.Parse(at); err != nil {
		return nil, errors.New("the server's URL can't be read; it is postgres://user:password@host:port/name")
	}
	if s.outer, err = pgx.Connect(ctx, at); err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	if _, err := s.outer.Exec(ctx, `CREATE DATABASE `+s.name); err != nil {
		return nil, errors.Join(fmt.Errorf("create a database: %w", err), s.outer.Close(ctx))
	}
	s.url.Path = "/" + s.name
	if s.admin, err = pgx.Connect(ctx, s.url.String()); err != nil {
		return nil, errors.Join(err, s.drop())
	}
	return s, nil
}

// drop removes the database.
func (s *server) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.admin != nil {
		_ = s.admin.Close(ctx)
	}
	_, err := s.outer.Exec(ctx, `DROP DATABASE `+s.name+` WITH (FORCE)`)
	return errors.Join(err, s.outer.Close(ctx))
}

// database is one trial's own schema.
type database struct {
	server *server
	name   string
	url    string
	conn   *pgx.Conn
}

// create makes a schema. Each commit of its sessions takes longer by delay, as
// on a slower disk or with a synchronous standby.
func (s *server) create(ctx context.Context, delay time.Duration) (d *database, err error) {
	s.count++
	d = &database{server: s, name: fmt.Sprintf("%s_%d", s.name, s.count)}
	if _, err := s.admin.Exec(ctx, `CREATE SCHEMA `+d.name); err != nil {
		return nil, fmt.Errorf("create a schema: %w", err)
	}
	u, q := *s.url, s.url.Query()
	q.Set("search_path", d.name)
	if delay > 0 {
		q.Set("commit_delay", strconv.FormatInt(delay.Microseconds(), 10))
		q.Set("commit_siblings", "0")
	}
	u.RawQuery = q.Encode()
	d.url = u.String()
	if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
		return nil, errors.Join(err, d.drop())
	}
	return d, nil
}

// Slots and publications that a contender makes are named after its schema.
const (
	endSlots  = `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL`
	dropSlots = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NULL`
	slotsLeft = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1`
)

// drop removes the schema and its replication slot.
func (d *database) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
	for left := 1; left > 0; {
		for _, q := range []string{endSlots, dropSlots} {
			if _, err := d.server.admin.Exec(ctx, q, d.name); err != nil {
				return fmt.Errorf("drop replication slots: %w", err)
			}
		}
		if err := d.server.admin.QueryRow(ctx, slotsLeft, d.name).Scan(&left); err != nil {
			return err
		}
	}
	for _, q := range []string{`SET client_min_messages = warning`, `DROP PUBLICATION IF EXISTS ` + d.name, `DROP SCHEMA IF EXISTS ` + beside(d.name) + ` CASCADE`, `DROP SCHEMA ` + d.name + ` CASCADE`} {
		if _, err := d.server.admin.Exec(ctx, q); err != nil {
			return fmt.Errorf("drop the schema: %w", err)
		}
	}
	return nil
}

// as returns the schema's URL for sessions of that name.
func (d *database) as(name string) string {
	u, err := url.Parse(d.url)
	if err != nil {
		return d.url
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// walPosition is how many bytes of WAL the whole server has written.
func (s *server) walPosition(ctx context.Context) (n int64, err error) {
	err = s.admin.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&n)
	return n, err
}

// sessionCPU is the CPU time that sessions of that name have used, in seconds;
// it is not known when the server is on another machine.
func (s *server) sessionCPU(ctx context.Context, name string) (seconds float64, known bool) {
	rows, err := s.admin.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE application_name = $1`, name)
	if err != nil {
		return 0, false
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || !s.local(ctx) {
		return 0, false
	}
	for _, pid := range pids {
		seconds += processCPU(pid)
	}
	return seconds, len(pids) > 0
}

// local tells whether the server's processes are seen from here: its own
// backend's number is one of a process that is named after it.
func (s *server) local(ctx context.Context) bool {
	var pid int
	if err := s.admin.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return false
	}
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.HasPrefix(string(comm), "postgres")
}

// ticks per second of /proc: Linux has had 100 on all machines that matter.
const ticks = 100

func processCPU(pid int) float64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
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

// deadRows counts the row versions that updates and deletes have left behind, in
// the events' table and in all.
func (d *database) deadRows(ctx context.Context, table string) (events, all int64, err error) {
	err = d.conn.QueryRow(ctx, `SELECT coalesce(sum(n_tup_upd + n_tup_del) FILTER (WHERE relname = $1), 0)::bigint, coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint
 FROM pg_stat_user_tables WHERE schemaname = current_schema()`, table).Scan(&events, &all)
	return events, all, err
}
