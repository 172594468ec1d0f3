package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a database is examined. The zero value works.
type DoctorConfig struct {
	// ConnectTimeout bounds the making of a connection, StatementTimeout each
	// check. Default to 5 s and 10 s.
	ConnectTimeout, StatementTimeout time.Duration
	// Connections is how many connections a process of Settle may open at once.
	// Defaults to those of a Store of the zero Config.
	Connections int
	// Stale is how old an open transaction may be. Defaults to 1 min.
	Stale time.Duration
	// Clock is this machine's time, compared with the database's. Defaults to
	// time.Now.
	Clock func() time.Time
}

// Doctor examines a database without changing it, whether Settle's tables are
// there or not.
type Doctor struct {
	url string
	cfg DoctorConfig
}

var _ doctor.Checker = (*Doctor)(nil)

// NewDoctor returns a Doctor for the database at url (see Open). It does no I/O.
func NewDoctor(url string, cfg DoctorConfig) *Doctor {
	setDefault(&cfg.ConnectTimeout, 5*time.Second)
	setDefault(&cfg.StatementTimeout, 10*time.Second)
	setDefault(&cfg.Stale, time.Minute)
	if cfg.Connections <= 0 {
		cfg.Connections = ownConns + 3*Config{}.withDefaults().MaxConns
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Doctor{url: url, cfg: cfg}
}

// Check implements doctor.Checker.
func (d *Doctor) Check(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, (*examination).checks)
}

// Durability implements doctor.Checker.
func (d *Doctor) Durability(ctx context.Context) ([]doctor.Finding, error) {
	return d.examine(ctx, func(x *examination) []check {
		return slices.DeleteFunc(x.checks(), func(c check) bool {
			return !slices.Contains([]string{"innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "engines"}, c.name)
		})
	})
}

func (d *Doctor) examine(ctx context.Context, checks func(*examination) []check) ([]doctor.Finding, error) {
	cfg, err := parseURL(d.url)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = d.cfg.ConnectTimeout
	db, err := pool(cfg, map[string]string{"time_zone": "'+00:00'"}, 1, time.Minute)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	x := &examination{cfg: d.cfg, db: db, url: cfg, settings: map[string]string{}}
	if err := x.begin(ctx); err != nil {
		return nil, unreachable(err, cfg)
	}
	var all []doctor.Finding
	for _, c := range checks(x) {
		f := x.run(ctx, c)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// check is one thing that is looked at, and what it matters for.
type check struct {
	name, why string
	look      func(ctx context.Context) (doctor.Diagnosis, error)
}

// problems collects what one check has found.
type problems struct{ found, fixes []string }

func (p *problems) add(found, fix string) {
	p.found, p.fixes = append(p.found, found), append(p.fixes, fix)
}

func (p *problems) diagnosis(verdict doctor.Verdict, good string, args ...any) doctor.Diagnosis {
	if len(p.found) == 0 {
		return doctor.Sound(good, args...)
	}
	return doctor.Diagnose(verdict, strings.Join(p.found, "; "), strings.Join(slices.Compact(p.fixes), "; "))
}

func (x *examination) run(ctx context.Context, c check) doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.StatementTimeout)
	defer cancel()
	r, err := c.look(ctx)
	if err != nil {
		r = doctor.Unseen(explain(err).Error(), "mend what schema, tables and privileges name, and look again; or give it more time on a quiet server")
	}
	return r.Of(c.name, c.why)
}

// examination is one look at one database.
type examination struct {
	cfg      DoctorConfig
	db       *sql.DB
	url      *driver.Config
	server   server
	settings map[string]string
	// account is the user as the server knows him, as SQL writes it.
	account string
	// version is that of the tables, 0 where there are none, and things are what
	// this program's tables have.
	version int64
	things  []wanted
	// adopted is how the table of another owner is read, nil for an outbox of our
	// own, and finished whether the adoption is; shared is the consume log that
	// foreign consumers write to, nil where none do.
	adopted  *adoption
	finished bool
	shared   *sharedLog
}

const (
	whoAmI = `SELECT concat(quote(substring_index(CURRENT_USER(), '@', 1)), '@', quote(substring_index(CURRENT_USER(), '@', -1)))`

	serverSettings = `SHOW GLOBAL VARIABLES WHERE Variable_name IN (%s)`

	// Without it MySQL tells of counters as they were up to a day ago.
	freshStatistics = `SET SESSION information_schema_stats_expiry = 0`
)

func settingNames() []string {
	return []string{
		"innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "innodb_doublewrite", "innodb_flush_method", "binlog_format", "sql_mode",
		"tx_isolation", "transaction_isolation", "max_allowed_packet", "wait_timeout", "group_concat_max_len", "time_zone", "system_time_zone",
		"read_only", "super_read_only", "innodb_read_only", "innodb_autoinc_lock_mode", "auto_increment_increment", "max_connections", "max_user_connections",
		"wsrep_on", "group_replication_group_name", "group_replication_single_primary_mode",
		"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled", "performance_schema",
	}
}

func (x *examination) begin(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.ConnectTimeout+x.cfg.StatementTimeout)
	defer cancel()
	// A server that is too old, or a replica, is a finding.
	if x.server, err = look(ctx, x.db); x.server.version == "" {
		return err
	}
	if !x.server.mariadb {
		if _, err := x.db.ExecContext(ctx, freshStatistics); err != nil {
			return err
		}
	}
	if err := x.db.QueryRowContext(ctx, whoAmI).Scan(&x.account); err != nil {
		return err
	}
	var name, value string
	names := settingNames()
	err = each(ctx, x.db, []any{&name, &value}, func() { x.settings[strings.ToLower(name)] = value }, fmt.Sprintf(serverSettings, times(len(names), "?")), list(names)...)
	if err != nil {
		return err
	}
	files, err := x.server.layoutOf(ctx, x.db)
	if err != nil {
		return err
	}
	if x.things, err = wantedThings(files); err != nil {
		return err
	}
	return x.findForeign(ctx)
}

func (x *examination) checks() []check {
	all := slices.Concat(x.serverChecks(), x.sessionDefaults(), x.schemaChecks(), x.outboxChecks(), x.loadChecks())
	if x.adopted != nil {
		all = append(all, x.adoptedChecks()...)
	}
	if x.shared != nil {
		all = append(all, x.sharedChecks()...)
	}
	return all
}
