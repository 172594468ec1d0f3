package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
)

func TestInbox(t *testing.T) {
	storetest.RunInbox(t, openInbox)
}

// openInbox opens a fresh database with a table of the business.
func openInbox(t testing.TB) storetest.InboxStore[*sql.Tx] {
	t.Helper()
	s := openWithEffects(t, mysql.Config{MaxConns: 4})
	exec := func(ctx context.Context, query string, args ...any) error {
		_, err := s.DB().ExecContext(ctx, query, args...)
		return err
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect:     effect,
		Effects:    func(ctx context.Context) ([]string, error) { return effects(ctx, s.Reader()) },
		LeaveOver: func(ctx context.Context, group, eventID, status string, at time.Time) error {
			return exec(ctx, `INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES (?,?,?,?)`, group, eventID, status, at.UTC())
		},
		// There is no trigger that keeps people from it: few roles may have one.
		Tamper: func(ctx context.Context, seq int64) error {
			return exec(ctx, `UPDATE t_audit SET reason = 'x' WHERE seq = ?`, seq)
		},
		Garble: func(ctx context.Context, group, eventID string) error {
			return exec(ctx, `UPDATE t_consume_retry SET raw = x'ff' WHERE consumer_group = ? AND event_id = ?`, group, eventID)
		},
	}
}

// openWithEffects opens a database of the test's own, with a table of the
// business.
func openWithEffects(t testing.TB, cfg mysql.Config) *mysql.Store {
	t.Helper()
	s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), cfg)
	if _, err := s.DB().ExecContext(context.Background(), `CREATE TABLE t_effect (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, row_id VARCHAR(250) NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return s
}

func effect(ctx context.Context, tx *sql.Tx, row string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (row_id) VALUES (?)`, row)
	return err
}

func effects(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT row_id FROM t_effect ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}
