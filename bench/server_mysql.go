package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// onMySQL is MariaDB, or MySQL, and what is measured on it.
func onMySQL() engine {
	return engine{name: "mysql", schemes: []string{"mysql", "mariadb"}, env: "SETTLE_TEST_MYSQL", service: "mariadb", connect: connectMySQL,
		contenders: []contender{rawOnMySQL(), settleOnMySQL(), leanOnMySQL(), classicOnMySQL(), watermillLargeOnMySQL(), watermillOnMySQL(), tutorialOnMySQL()},
		appliers:   []applier{upsertsOnMySQL(), settleBatchOnMySQL(), settleEachOnMySQL(), singleOnMySQL(), deduplicatorOnMySQL()},
		producers:  producersOnMySQL(), shop: shopOnMySQL, aims: aimsOnMySQL()}
}

// mysqlServer has a database for each trial, and a user whose sessions are those
// of contenders.
type mysqlServer struct {
	name  string // of the user, and what databases' names begin with
	at    *url.URL
	admin *sql.DB
	// settings are those of the server that were changed, as they were.
	settings map[string]string
	password string
	count    int
}

func connectMySQL(ctx context.Context, at string) (_ server, err error) {
	s := &mysqlServer{name: fmt.Sprintf("settle_bench_%d", os.Getpid()), settings: map[string]string{}, password: rand.Text()}
	if s.at, err = url.Parse(at); err != nil {
		return nil, errors.New("the server's URL can't be read; it is mysql://user:password@host:port/name")
	}
	if s.admin, err = openMySQL(at); err != nil {
		return nil, err
	}
	for _, q := range []string{
		`CREATE USER ` + s.name + `@'%' IDENTIFIED BY '` + s.password + `'`,
		`GRANT PROCESS ON *.* TO ` + s.name + `@'%'`,
		"GRANT ALL ON `" + strings.ReplaceAll(s.name, "_", `\_`) + "%`.* TO " + s.name + `@'%'`,
	} {
		if _, err := s.admin.ExecContext(ctx, q); err != nil {
			return nil, errors.Join(fmt.Errorf("make a user for the ways that are measured: %w", err), s.close())
		}
	}
	// A thread of its own for each session tells its time; only MariaDB counts
	// the rows of each table.
	err = s.set(ctx, "thread_cache_size", "0")
	if err == nil && s.set(ctx, "userstat", "1") != nil {
		delete(s.settings, "userstat")
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// mysqlConfig is how all ways connect: values are written into statements by the
// driver, which saves a round trip for each.
func mysqlConfig(at string) (*driver.Config, error) {
	u, err := url.Parse(at)
	if err != nil || len(u.Path) < 2 {
		return nil, errors.New("the URL can't be read; it is mysql://user:password@host:port/name")
	}
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, u.Path[1:], u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.ParseTime, cfg.InterpolateParams = true, true
	cfg.Params = map[string]string{"time_zone": "'+00:00'"}
	cfg.Logger = &driver.NopLogger{}
	return cfg, nil
}

// openMySQL is for the bench itself, which runs scripts.
func openMySQL(at string) (*sql.DB, error) {
	cfg, err := mysqlConfig(at)
	if err != nil {
		return nil, err
	}
	cfg.MultiStatements = true
	return connectorOf(cfg)
}

func connectorOf(cfg *driver.Config) (*sql.DB, error) {
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// set changes a setting of the server, and notes what it was.
func (s *mysqlServer) set(ctx context.Context, name, value string) error {
	if _, noted := s.settings[name]; !noted {
		var was string
		if err := s.admin.QueryRowContext(ctx, `SELECT @@global.`+name).Scan(&was); err != nil {
			return err
		}
		s.settings[name] = was
	}
	_, err := s.admin.ExecContext(ctx, `SET GLOBAL `+name+` = `+value)
	return err
}

func (s *mysqlServer) reset(ctx context.Context, name string) error {
	was, noted := s.settings[name]
	if !noted {
		return nil
	}
	_, err := s.admin.ExecContext(ctx, `SET GLOBAL `+name+` = `+was)
	return err
}

func (s *mysqlServer) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name := range s.settings {
		err = errors.Join(err, s.reset(ctx, name))
	}
	_, dropped := s.admin.ExecContext(ctx, `DROP USER IF EXISTS `+s.name+`@'%'`)
	return errors.Join(err, dropped, s.admin.Close())
}

const describeMySQL = `SELECT VERSION(), CONCAT('innodb_flush_log_at_trx_commit ', @@global.innodb_flush_log_at_trx_commit, ', binary log ',
 IF(@@global.log_bin, CONCAT('on, sync_binlog ', @@global.sync_binlog), 'off')), (SELECT count(*) - 1 FROM information_schema.processlist WHERE command NOT IN ('Daemon', 'Binlog Dump') AND user <> 'system user')`

func (s *mysqlServer) describe(ctx context.Context) (d database, err error) {
	err = s.admin.QueryRowContext(ctx, describeMySQL).Scan(&d.Version, &d.Durable, &d.OtherSessions)
	d.Name = "MySQL"
	if strings.Contains(d.Version, "MariaDB") {
		d.Name = "MariaDB"
	}
	d.Version, _, _ = strings.Cut(d.Version, "-")
	return d, err
}

func (s *mysqlServer) create(ctx context.Context, delay time.Duration) (*place, error) {
	s.count++
	p := &place{server: s, name: fmt.Sprintf("%s_%d", s.name, s.count)}
	if _, err := s.admin.ExecContext(ctx, `CREATE DATABASE `+p.name+` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`); err != nil {
		return nil, fmt.Errorf("create a database: %w", err)
	}
	u := *s.at
	u.Path = "/" + p.name
	p.url = u.String()
	err := p.open(ctx, openMySQL)
	if err == nil && delay > 0 {
		err = s.slowly(ctx, delay)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove(p))
	}
	return p, nil
}

// slowly makes each commit wait for others that do not come. MariaDB and MySQL
// call it by different names.
func (s *mysqlServer) slowly(ctx context.Context, delay time.Duration) error {
	us := strconv.FormatInt(delay.Microseconds(), 10)
	if s.set(ctx, "binlog_commit_wait_usec", us) != nil {
		return s.set(ctx, "binlog_group_commit_sync_delay", us)
	}
	return s.set(ctx, "binlog_commit_wait_count", "1000")
}

func (s *mysqlServer) remove(p *place) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p.end()
	for _, name := range []string{"binlog_commit_wait_usec", "binlog_commit_wait_count", "binlog_group_commit_sync_delay"} {
		err = errors.Join(err, s.reset(ctx, name))
	}
	for _, name := range []string{p.name, beside(p.name)} {
		if _, dropped := s.admin.ExecContext(ctx, `DROP DATABASE IF EXISTS `+name); dropped != nil {
			err = errors.Join(err, fmt.Errorf("drop the database: %w", dropped))
		}
	}
	return err
}

// lazily leaves the binary log out, and the redo log to be written later. The
// statement that flushes it makes all durable.
func (s *mysqlServer) lazily(ctx context.Context, p *place, f func() error) error {
	err := p.exec(ctx, `SET SESSION sql_log_bin = 0`)
	if err == nil {
		err = s.set(ctx, "innodb_flush_log_at_trx_commit", "0")
	}
	if err == nil {
		err = f()
	}
	return errors.Join(err, s.reset(ctx, "innodb_flush_log_at_trx_commit"), p.exec(ctx, `SET SESSION sql_log_bin = 1`, `FLUSH ENGINE LOGS`))
}

// again is true of a deadlock and of a lock that was waited for too long.
func (s *mysqlServer) again(err error) bool {
	var refused *driver.MySQLError
	return errors.As(err, &refused) && (refused.Number == 1213 || refused.Number == 1205)
}

const (
	innodbStatus    = `SHOW ENGINE INNODB STATUS`
	binaryLogs      = `SHOW BINARY LOGS`
	versionsOfAll   = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_update', 'Handler_delete')`
	versionsOfTable = `SELECT coalesce(sum(rows_changed), 0) FROM information_schema.table_statistics WHERE table_schema = ? AND table_name = ?`
)

// written counts the redo log and the binary log; of the events' table it counts
// inserts, too, so it is for trials that store nothing between.
func (s *mysqlServer) written(ctx context.Context, p *place, table string) (w written, err error) {
	var kind, name, status string
	if err := s.admin.QueryRowContext(ctx, innodbStatus).Scan(&kind, &name, &status); err != nil {
		return w, err
	}
	_, rest, _ := strings.Cut(status, "Log sequence number")
	if fields := strings.Fields(rest); len(fields) > 0 {
		w.log, _ = strconv.ParseFloat(fields[0], 64)
	}
	if err := s.sum(ctx, binaryLogs, &w.log); err != nil {
		return w, err
	}
	if err := s.sum(ctx, versionsOfAll, &w.all); err != nil {
		return w, err
	}
	if s.admin.QueryRowContext(ctx, versionsOfTable, p.name, table).Scan(&w.events) != nil {
		w.events = -1
	}
	return w, nil
}

// sum adds up the second columns of a query.
func (s *mysqlServer) sum(ctx context.Context, query string, to *float64) error {
	rows, err := s.admin.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var n float64
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	into[1] = &n
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		*to += n
	}
	return rows.Err()
}

func (s *mysqlServer) url(p *place) string {
	u := *s.at
	u.User, u.Path = url.UserPassword(s.name, s.password), "/"+p.name
	return u.String()
}

func (s *mysqlServer) sessions(ctx context.Context, _ *place) (n int, err error) {
	err = s.admin.QueryRowContext(ctx, `SELECT count(*) FROM information_schema.processlist WHERE user = ?`, s.name).Scan(&n)
	return n, err
}

// cpu is known of MariaDB, which tells the threads of sessions.
func (s *mysqlServer) cpu(ctx context.Context, _ *place) (seconds float64, known bool) {
	rows, err := s.admin.QueryContext(ctx, `SELECT tid FROM information_schema.processlist WHERE user = ?`, s.name)
	if err != nil {
		return 0, false
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var tid int
		if err := rows.Scan(&tid); err != nil {
			return 0, false
		}
		thread := fmt.Sprintf("/proc/%d/task/%d", tid, tid)
		if comm, err := os.ReadFile(thread + "/comm"); err != nil || !strings.HasPrefix(string(comm), "mariadbd") {
			return 0, false
		}
		seconds += cpuOf(thread)
		known = true
	}
	return seconds, known && rows.Err() == nil
}
