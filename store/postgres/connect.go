package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle/store/migrate"
)

// ownConns are the connections of the relay, its standby and leases.
const ownConns = 6

var errURL = errors.New("the URL can't be read; it is postgres://user:password@host:port/name?search_path=schema")

func (s *Store) open(ctx context.Context, url string) error {
	base, err := pgxpool.ParseConfig(url)
	if err != nil {
		return wrongURL(err)
	}
	base.ConnConfig.ConnectTimeout = s.cfg.ConnectTimeout
	schema := base.ConnConfig.RuntimeParams["search_path"]
	s.service = s.cfg.Service
	if s.service == "" {
		s.service = schema
	}
	if s.service == "" {
		s.service = base.ConnConfig.Database
	}
	pooled, err := s.setUp(ctx, base.ConnConfig, schema)
	if err != nil {
		return err
	}
	// What is prepared by name belongs to a session, and behind a pooler the
	// next transaction has another.
	base.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if pooled {
		base.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !pooled {
		s.bell.open(base.ConnConfig.Copy())
	}
	return s.openPools(ctx, base, pooled)
}

func (s *Store) openPools(ctx context.Context, base *pgxpool.Config, pooled bool) error {
	business := time.Duration(6) * s.cfg.IdleTimeout
	for _, p := range []struct {
		pool  **pgxpool.Pool
		conns int
		set   map[string]string
	}{
		// What the relay sends in one piece sees what others have committed while it
		// waited for them, whatever the role's default is.
		{&s.own, ownConns, map[string]string{isolation: readsCommitted}},
		{&s.business, s.cfg.MaxConns, map[string]string{"idle_in_transaction_session_timeout": ms(business)}},
		{&s.reading, s.cfg.MaxConns, map[string]string{"jit": "off", "statement_timeout": ms(business), "idle_in_transaction_session_timeout": ms(business)}},
	} {
		c := base.Copy()
		c.MaxConns, c.MinConns = int32(p.conns), 0
		// A pooler refuses settings that it does not know.
		for name, value := range p.set {
			if _, given := c.ConnConfig.RuntimeParams[name]; !given && !pooled {
				c.ConnConfig.RuntimeParams[name] = value
			}
		}
		if p.pool == &s.reading {
			c.ShouldPing = always
			if !pooled {
				c.AfterConnect = onlyRead
			}
		}
		pool, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			return err
		}
		*p.pool = pool
	}
	s.db, s.reader = stdlib.OpenDBFromPool(s.business), stdlib.OpenDBFromPool(s.reading)
	if pooled {
		s.reader = readOnly(s.reading)
	}
	return nil
}

// always asks a connection whether it lives before something is read. One that
// the server has ended while nobody used it is known only by its answer, and by
// default is not asked within a second of its last use. A round trip is little
// for people's questions and for what is asked every few seconds.
func always(context.Context, pgxpool.ShouldPingParams) bool { return true }

// onlyRead is said to a session that is there. Said before, it would hide which
// of several hosts is the primary (target_session_attrs=read-write).
func onlyRead(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SET default_transaction_read_only = on`)
	return err
}

const (
	isolation      = "default_transaction_isolation"
	readsCommitted = "read committed"

	whereAmI = `SELECT pg_backend_pid(), coalesce(current_schema(), ''), pg_is_in_recovery(), current_setting('server_version_num')::integer, current_setting('` + isolation + `')`
	hasOwn   = `SELECT to_regclass('` + migrate.Table + `') IS NOT NULL`
)

// oldest is the first server version with everything that is used here.
const oldest = 140000

// setUp looks at the server and migrates. It tells whether a pooler stands
// between: it hides the process that the server has for this connection.
func (s *Store) setUp(ctx context.Context, cfg *pgx.ConnConfig, schema string) (pooled bool, err error) {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	pooled, current, err := look(ctx, conn)
	switch {
	case err != nil:
		return pooled, err
	case current == "" && s.cfg.Existing:
		return pooled, ErrForeign
	}
	if err := makeSchema(ctx, conn, current, schema); err != nil {
		return pooled, err
	}
	if err := s.migrate(ctx, conn, cfg); err != nil {
		return pooled, err
	}
	if s.adopted, err = loadAdoption(ctx, conn); err == nil && s.adopted != nil {
		s.project, s.status = newProjection(s.adopted), newStatusSweep(s.adopted)
	}
	if err == nil {
		err = s.lookWhetherPartitioned(ctx, conn)
	}
	if err != nil {
		return pooled, err
	}
	log, err := loadSharedLog(ctx, conn)
	s.shared = newSharing(log)
	return pooled, err
}

// look asks the server what it is, whether a pooler stands before it, and which
// schema the session works in.
func look(ctx context.Context, conn *pgx.Conn) (pooled bool, current string, err error) {
	var pid uint32
	var standby bool
	var version int
	var reads string
	if err := conn.QueryRow(ctx, whereAmI).Scan(&pid, &current, &standby, &version, &reads); err != nil {
		return false, "", err
	}
	pooled = pid != conn.PgConn().PID()
	switch {
	case version < oldest:
		return pooled, current, fmt.Errorf("the server is PostgreSQL %d; want %d or newer", version/10000, oldest/10000)
	case standby:
		return pooled, current, errors.New("the server is a read-only replica; give the URL of the primary")
	case pooled && reads != readsCommitted:
		return pooled, current, fmt.Errorf("transactions of the role are %s, and behind a pooler the relay can't change that for its own: ALTER ROLE … SET %s = '%s'", reads, isolation, readsCommitted)
	}
	return pooled, current, nil
}

func makeSchema(ctx context.Context, conn *pgx.Conn, current, path string) error {
	first, _, _ := strings.Cut(path, ",")
	first = strings.Trim(strings.TrimSpace(first), `"`)
	if path == "" || current == first {
		if current == "" {
			return errors.New("the role has no schema to make tables in; name one in the URL (?search_path=schema), or: CREATE SCHEMA AUTHORIZATION CURRENT_USER")
		}
		return nil
	}
	_, err := conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{first}.Sanitize())
	// Of two that make it at once, one is told that it is there.
	if err != nil && !hasState(err, stateUnique) {
		return err
	}
	// A pooler may have swallowed the URL's search_path.
	var now string
	if err := conn.QueryRow(ctx, `SELECT coalesce(current_schema(), '')`).Scan(&now); err != nil {
		return err
	}
	if now != first {
		return fmt.Errorf("the URL's search_path is %s, and the session's first schema is %q: a pooler has dropped it; set it for the role: ALTER ROLE … SET search_path = %s", path, now, first)
	}
	return nil
}

// The lock ends with its transaction, so it holds behind a pooler too. A waiter
// that is named by the same number as another schema's waits a moment longer.
const migrateAlone = `SELECT set_config('idle_in_transaction_session_timeout', '0', true), set_config('lock_timeout', '0', true),
 set_config('statement_timeout', '0', true), pg_advisory_xact_lock(hashtext('settle.migrate'), hashtext(current_schema()))`

func (s *Store) migrate(ctx context.Context, conn *pgx.Conn, cfg *pgx.ConnConfig) error {
	if s.cfg.Existing {
		var found bool
		if err := conn.QueryRow(ctx, hasOwn).Scan(&found); err != nil {
			return err
		}
		if !found {
			return ErrForeign
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, migrateAlone); err != nil {
		return fmt.Errorf("wait for another process that migrates: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	return migrateWith(ctx, db, s.cfg.Existing)
}

func migrateWith(ctx context.Context, db *sql.DB, existing bool) error {
	files, err := presentLayout(ctx, db)
	if err != nil {
		return err
	}
	if existing {
		return migrate.Check(ctx, db, migrate.Postgres, files)
	}
	return migrate.Up(ctx, db, migrate.Postgres, files)
}
