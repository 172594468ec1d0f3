package cli_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// onMySQL is how programs that know nothing of Settle write to MySQL.
func onMySQL() dialect {
	return dialect{
		insert: `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES (?, 'thing.done', ?, ?) ON DUPLICATE KEY UPDATE event_id = event_id`,
		connect: func(ctx context.Context, at, first string) (session, error) {
			s, err := connectMySQL(ctx, at)
			if err == nil && first != "" {
				if err = s.exec(ctx, first); err != nil {
					s.close(ctx)
				}
			}
			return s, err
		},
		rows: mysqlRows,
	}
}

// mysqlSession is one connection; what has gone is not made anew.
type mysqlSession struct {
	db   *sql.DB
	conn *sql.Conn
}

func connectMySQL(ctx context.Context, at string) (mysqlSession, error) {
	u, err := url.Parse(at)
	if err != nil {
		return mysqlSession{}, err
	}
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, u.Path[1:], u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Timeout, cfg.Logger = 2*time.Second, &driver.NopLogger{}
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return mysqlSession{}, err
	}
	db := sql.OpenDB(c)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return mysqlSession{}, err
	}
	return mysqlSession{db, conn}, nil
}

func (s mysqlSession) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, query, args...)
	return err
}

func (s mysqlSession) close(context.Context) { _, _ = s.conn.Close(), s.db.Close() }

func mysqlRows(t *testing.T, ctx context.Context, at string) (all []tableRow) {
	t.Helper()
	s, err := connectMySQL(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(ctx)
	rows, err := s.conn.QueryContext(ctx, "SELECT event_id, aggregate_id, payload FROM t_outbox_event ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r tableRow
		if err := rows.Scan(&r.id, &r.key, &r.payload); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// holdMySQL runs statements in a session whose transaction stays open until it
// is let go.
func holdMySQL(t *testing.T, at string, statements ...string) (letGo func()) {
	t.Helper()
	s, err := connectMySQL(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(context.Background()) })
	for _, q := range statements {
		if err := s.exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return func() { s.close(t.Context()) }
}
