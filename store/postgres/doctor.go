package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/settlemq/settle/doctor"
)

// DoctorConfig says how a database is examined. The zero value works.
type DoctorConfig struct {
	// ConnectTimeout bounds the making of the connection, StatementTimeout each
	// look. Default to 5 s and 10 s.
	ConnectTimeout, StatementTimeout time.Duration
	// Connections is how many connections a process of Settle may open at once.
	// Defaults to those of a Store of the zero Config, and one that listens.
	Connections int
	// Stale is how old an open transaction may be. Defaults to 1 min.
	Stale time.Duration
	// Clock is this machine's time, compared with the database's. Defaults to
	// time.Now.
	Clock func() time.Time
}

// Doctor examines a schema without changing it, whether Settle's tables are
// there or not.
type Doctor struct {
	url string
	cfg DoctorConfig
}

var _ doctor.Checker = (*Doctor)(nil)

// NewDoctor returns a Doctor for the schema at url (see Open). It does no I/O.
func NewDoctor(url string, cfg DoctorConfig) *Doctor {
	setDefault(&cfg.ConnectTimeout, 5*time.Second)
	setDefault(&cfg.StatementTimeout, 10*time.Second)
	setDefault(&cfg.Stale, time.Minute)
	if cfg.Connections <= 0 {
		cfg.Connections = ownConns + 2*Config{}.withDefaults().MaxConns + 1
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
		return slices.DeleteFunc(x.serverChecks(), func(c check) bool {
			return !slices.Contains([]string{"synchronous_commit", "fsync", "full_page_writes", "unlogged_tables"}, c.name)
		})
	})
}

func (d *Doctor) examine(ctx context.Context, checks func(*examination) []check) ([]doctor.Finding, error) {
	pool, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, wrongURL(err)
	}
	cfg := pool.ConnConfig
	cfg.ConnectTimeout = d.cfg.ConnectTimeout
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, unreachable(err, cfg)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	x := &examination{cfg: d.cfg, conn: conn, path: cfg.RuntimeParams["search_path"]}
	if err := x.begin(ctx); err != nil {
		return nil, fmt.Errorf("look at the database: %w", explain(err))
	}
	var all []doctor.Finding
	for _, c := range checks(x) {
		f := x.run(ctx, c)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if conn.IsClosed() {
			return nil, fmt.Errorf("check %s: the server has ended the connection: %s", c.name, f.Found)
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

func (x *examination) run(ctx context.Context, c check) doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.StatementTimeout+x.cfg.ConnectTimeout)
	defer cancel()
	r, err := c.look(ctx)
	if err != nil {
		r = doctor.Unseen(explain(err).Error(), "mend what schema, tables and privileges name, and look again; or give it more time on a quiet server")
	}
	r.Found, r.Fix = x.named(r.Found), x.named(r.Fix)
	return r.Of(c.name, c.why)
}

// examination is one look at one schema.
type examination struct {
	cfg  DoctorConfig
	conn *pgx.Conn
	// path is the URL's search_path.
	path                   string
	role, database, schema string
	super, pooled, standby bool
	// torn: a pooler stands between that keeps no transaction together.
	torn     bool
	version  int
	settings map[string]setting
	// outbox is the table's shape; nil when there is none.
	outbox *outboxShape
	// adopted is how the table of another owner is read; nil for one of our own.
	adopted *adoption
	// partitioned is how an outbox of our own is divided.
	partitioned layoutFound
	// shared is the consume log that foreign consumers write to; nil: none do.
	shared *sharedLog
}

type setting struct{ value, source string }

const (
	whoAmI = `SELECT pg_backend_pid(), session_user::text, current_database()::text, coalesce(current_schema()::text, ''), pg_is_in_recovery(),
 current_setting('server_version_num')::integer, coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)`

	readServerSettings = `SELECT name, setting, source FROM pg_settings WHERE name = ANY($1)`

	boundLook = `SELECT set_config('statement_timeout', $1, false)`
)

func settingNames() []string {
	return []string{"synchronous_commit", "fsync", "full_page_writes", "synchronous_standby_names", "default_transaction_isolation",
		"default_transaction_read_only", "TimeZone", "server_encoding", "autovacuum", "track_counts", "wal_level", "max_connections",
		"superuser_reserved_connections", "reserved_connections"}
}

func (x *examination) begin(ctx context.Context) error {
	var pid uint32
	if err := x.conn.QueryRow(ctx, whoAmI).Scan(&pid, &x.role, &x.database, &x.schema, &x.standby, &x.version, &x.super); err != nil {
		return err
	}
	x.pooled = pid != x.conn.PgConn().PID()
	if !x.pooled { // a session behind a pooler goes on to somebody else
		if _, err := x.conn.Exec(ctx, boundLook, ms(x.cfg.StatementTimeout)); err != nil {
			return err
		}
	}
	x.settings = map[string]setting{}
	var name string
	var s setting
	err := x.each(ctx, []any{&name, &s.value, &s.source}, func() { x.settings[name] = s }, readServerSettings, settingNames())
	if err != nil {
		return err
	}
	if err := x.findAdopted(ctx); err != nil {
		return err
	}
	if err := x.findShared(ctx); err != nil {
		return err
	}
	x.outbox, err = x.shape(ctx)
	if x.adopted != nil && hasState(err, stateNoRight) { // privileges names it
		return nil
	}
	if err != nil || x.outbox == nil || x.adopted != nil {
		return err
	}
	x.partitioned, err = findPartitions(ctx, x.conn)
	return err
}

// each calls f for every row.
func (x *examination) each(ctx context.Context, into []any, f func(), query string, args ...any) error {
	rows, err := x.conn.Query(ctx, x.of(query), args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error { f(); return nil })
	return err
}

func (x *examination) checks() []check {
	all := x.serverChecks()
	all = append(all, x.schemaChecks()...)
	all = append(all, x.outboxChecks()...)
	if x.adopted != nil {
		all = append(all, x.adoptedChecks()...)
	}
	if x.shared != nil {
		all = append(all, x.sharedChecks()...)
	}
	return append(all, x.sessionChecks()...)
}

// ident quotes a name where SQL needs it.
func ident(name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && (name[0] < '0' || name[0] > '9')
	if plain {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

var errNoOutbox = errors.New("there is no t_outbox_event whose rows have numbers")
