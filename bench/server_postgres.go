package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// onPostgres is PostgreSQL and what is measured on it.
func onPostgres() engine {
	return engine{name: "postgres", schemes: []string{"postgres", "postgresql"}, env: "SETTLE_TEST_POSTGRES", service: "postgres", connect: connectPostgres,
		contenders: []contender{rawOnPostgres(), settleOnPostgres(), leanOnPostgres(), adoptedOnPostgres(), unprojectedOnPostgres(), replication(),
			classicOnPostgres(), watermillLargeOnPostgres(), watermillOnPostgres(), tutorialOnPostgres()},
		appliers:  []applier{upsertsOnPostgres(), settleBatchOnPostgres(), settleEachOnPostgres(), singleOnPostgres(), deduplicatorOnPostgres()},
		producers: producersOnPostgres(), shop: shopOnPostgres, aims: aimsOnPostgres()}
}

// postgresServer has a database for the run; trials have a schema each: to make
// and drop a database costs a checkpoint.
type postgresServer struct {
	name  string // of the database
	at    *url.URL
	outer *pgx.Conn // to the database that was named
	admin *pgx.Conn // to ours
	count int
}

func connectPostgres(ctx context.Context, at string) (_ server, err error) {
	s := &postgresServer{name: fmt.Sprintf("settle_bench_%d", os.Getpid())}
	if s.at, err = url.Parse(at); err != nil {
		return nil, errors.New("the server's URL can't be read; it is postgres://user:password@host:port/name")
	}
	if s.outer, err = pgx.Connect(ctx, at); err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	if _, err := s.outer.Exec(ctx, `CREATE DATABASE `+s.name); err != nil {
		return nil, errors.Join(fmt.Errorf("create a database: %w", err), s.outer.Close(ctx))
	}
	s.at.Path = "/" + s.name
	if s.admin, err = pgx.Connect(ctx, s.at.String()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *postgresServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.admin != nil {
		_ = s.admin.Close(ctx)
	}
	_, err := s.outer.Exec(ctx, `DROP DATABASE `+s.name+` WITH (FORCE)`)
	return errors.Join(err, s.outer.Close(ctx))
}

func (s *postgresServer) describe(ctx context.Context) (d database, err error) {
	d.Name = "PostgreSQL"
	err = s.admin.QueryRow(ctx, `SELECT current_setting('server_version'), 'fsync ' || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit'),
 (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), $1))`, s.outer.PgConn().PID()).Scan(&d.Version, &d.Durable, &d.OtherSessions)
	d.Version, _, _ = strings.Cut(d.Version, " ")
	return d, err
}

func (s *postgresServer) create(ctx context.Context, delay time.Duration) (*place, error) {
	s.count++
	p := &place{server: s, name: fmt.Sprintf("%s_%d", s.name, s.count)}
	if _, err := s.admin.Exec(ctx, `CREATE SCHEMA `+p.name); err != nil {
		return nil, fmt.Errorf("create a schema: %w", err)
	}
	u, q := *s.at, s.at.Query()
	q.Set("search_path", p.name)
	if delay > 0 {
		q.Set("commit_delay", strconv.FormatInt(delay.Microseconds(), 10))
		q.Set("commit_siblings", "0")
	}
	u.RawQuery = q.Encode()
	p.url = u.String()
	if err := p.open(ctx, openPostgres); err != nil {
		return nil, errors.Join(err, s.remove(p))
	}
	return p, nil
}

func openPostgres(at string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(at)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*cfg), nil
}

// Slots and publications that a contender makes are named after its schema.
const (
	endSlots  = `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL`
	dropSlots = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NULL`
	slotsLeft = `SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1`
)

func (s *postgresServer) remove(p *place) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p.end()
	for left := 1; left > 0; {
		for _, q := range []string{endSlots, dropSlots} {
			if _, err := s.admin.Exec(ctx, q, p.name); err != nil {
				return fmt.Errorf("drop replication slots: %w", err)
			}
		}
		if err := s.admin.QueryRow(ctx, slotsLeft, p.name).Scan(&left); err != nil {
			return err
		}
	}
	for _, q := range []string{`SET client_min_messages = warning`, `DROP PUBLICATION IF EXISTS ` + p.name, `DROP SCHEMA IF EXISTS ` + beside(p.name) + ` CASCADE`, `DROP SCHEMA ` + p.name + ` CASCADE`} {
		if _, err := s.admin.Exec(ctx, q); err != nil {
			return fmt.Errorf("drop the schema: %w", err)
		}
	}
	return nil
}

// lazily ends with a synchronous commit, which makes those before it durable.
func (s *postgresServer) lazily(ctx context.Context, p *place, f func() error) error {
	if err := p.exec(ctx, `SET synchronous_commit = off`); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, p.exec(ctx, `RESET synchronous_commit`, `CREATE TABLE IF NOT EXISTS durable ()`, `DROP TABLE durable`))
}

// again is true of a deadlock and of what can't be serialised.
func (s *postgresServer) again(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "40P01" || refused.Code == "40001")
}

const writtenByPostgres = `SELECT pg_current_wal_insert_lsn() - '0/0', coalesce(sum(n_tup_upd + n_tup_del) FILTER (WHERE relname = $1), 0), coalesce(sum(n_tup_upd + n_tup_del), 0)
FROM pg_stat_user_tables WHERE schemaname = $2`

func (s *postgresServer) written(ctx context.Context, p *place, table string) (w written, err error) {
	err = s.admin.QueryRow(ctx, writtenByPostgres, table, p.name).Scan(&w.log, &w.events, &w.all)
	return w, err
}

// url gives the sessions a name.
func (s *postgresServer) url(p *place) string {
	u, err := url.Parse(p.url)
	if err != nil {
		return p.url
	}
	q := u.Query()
	q.Set("application_name", p.name)
	u.RawQuery = q.Encode()
	return u.String()
}

func (s *postgresServer) sessions(ctx context.Context, p *place) (n int, err error) {
	err = s.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, p.name).Scan(&n)
	return n, err
}

func (s *postgresServer) cpu(ctx context.Context, p *place) (seconds float64, known bool) {
	rows, err := s.admin.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE application_name = $1`, p.name)
	if err != nil {
		return 0, false
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || !s.local(ctx) {
		return 0, false
	}
	for _, pid := range pids {
		seconds += cpuOf(fmt.Sprintf("/proc/%d", pid))
	}
	return seconds, len(pids) > 0
}

// local tells whether the server's processes are seen from here: its own
// backend's number is one of a process that is named after it.
func (s *postgresServer) local(ctx context.Context) bool {
	var pid int
	if err := s.admin.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return false
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(comm), "postgres")
}
