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
	storetest.RunInbox(t, inboxes(t))
}

// inboxes returns what opens an empty database with a table of the business for
// each case of a suite.
func inboxes(suite testing.TB) func(t testing.TB) storetest.InboxStore[*sql.Tx] {
	databases := mysql.NewDatabasesForTest(suite)
	return func(t testing.TB) storetest.InboxStore[*sql.Tx] {
		t.Helper()
		return openInbox(t, databases.Take(t))
	}
}

func openInbox(t testing.TB, at string) storetest.InboxStore[*sql.Tx] {
	t.Helper()
	s := mysql.OpenForTest(t, at, mysql.Config{MaxConns: 4})
	if _, err := s.DB().ExecContext(context.Background(), createEffects); err != nil {
		t.Fatal(err)
	}
	exec := func(ctx context.Context, query string, args ...any) error {
		_, err := s.DB().ExecContext(ctx, query, args...)
		return err
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect:     writeEffect,
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

const createEffects = `CREATE TABLE IF NOT EXISTS t_effect (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, row_id VARCHAR(250) NOT NULL)`

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
