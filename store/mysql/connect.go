package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/store/migrate"
)

// ownConns are the connections of the relay, its standby and leases.
const ownConns = 6

func (s *Store) open(ctx context.Context, url string) error {
	cfg, err := parseURL(url)
	if err != nil {
		return err
	}
	cfg.Timeout = s.cfg.ConnectTimeout
	s.service = s.cfg.Service
	if s.service == "" {
		s.service = cfg.DBName
	}
	first, err := pool(cfg, nil, 2, time.Minute)
	if err != nil {
		return err
	}
	defer func() { _ = first.Close() }()
	s.server, err = look(ctx, first)
	switch {
	case s.cfg.Existing && hasCode(err, codeNoDatabase):
		return errors.Join(err, ErrForeign)
	case err != nil:
		return err
	}
	if err := s.migrate(ctx, first); err != nil {
		return err
	}
	if s.adopted, err = s.server.loadAdoption(ctx, first); err != nil {
		return err
	}
	log, err := s.server.loadSharedLog(ctx, first)
	if err != nil {
		return err
	}
	s.shared = newSharing(log)
	if s.adopted.sweepable() {
		s.project, s.status = newProjection(s.adopted), newStatusSweep(s.adopted)
	}
	for _, p := range []struct {
		db            **sql.DB
		conns         int
		own, readOnly bool
	}{
		{&s.own, ownConns, true, false},
		{&s.db, s.cfg.MaxConns, false, false},
		{&s.reader, s.cfg.MaxConns, false, true},
	} {
		// A connection that the server would end is not used again.
		idle := min(time.Minute, s.server.idle/2)
		if p.own {
			idle = s.cfg.IdleTimeout / 2
		}
		if *p.db, err = pool(cfg, s.session(p.own, p.readOnly), p.conns, idle); err != nil {
			return err
		}
	}
	s.consume, err = s.consumers(cfg)
	return err
}

func pool(cfg *driver.Config, set map[string]string, conns int, idle time.Duration) (*sql.DB, error) {
	cfg = cfg.Clone()
	cfg.Params = set
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idle)
	return db, nil
}

const hasOwn = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '` + migrate.Table + `'`

func (s *Store) migrate(ctx context.Context, db *sql.DB) (err error) {
	if s.cfg.Existing {
		var found bool
		if err := db.QueryRowContext(ctx, hasOwn).Scan(&found); err != nil {
			return err
		}
		if !found {
			return ErrForeign
		}
	}
	files, err := s.server.layoutOf(ctx, db)
	if err != nil {
		return err
	}
	if s.cfg.Existing {
		return migrate.Check(ctx, db, migrate.MySQL, files)
	}
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := (wayDown{db, guardUndelivered}).Resume(ctx); err != nil {
		return err
	}
	return migrate.Up(ctx, db, migrate.MySQL, files)
}

// The name of a lock is the server's, and has 64 characters at most.
const migrateAlone = `SELECT GET_LOCK(CONCAT('settle.migrate.', MD5(DATABASE())), 3600)`

// lockMigrations holds the lock in a session of its own.
func lockMigrations(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	unlock = func() error {
		// The session ends, and the lock with it.
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
		if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			return err
		}
		return nil
	}
	var got sql.NullBool
	err = conn.QueryRowContext(ctx, migrateAlone).Scan(&got)
	if err == nil && !got.Bool {
		err = errors.New("the server gave no lock")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another process that migrates: %w", err), unlock())
	}
	return unlock, nil
}
