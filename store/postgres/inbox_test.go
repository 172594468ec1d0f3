package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
)

func TestInbox(t *testing.T) {
	storetest.RunInbox(t, openInbox)
}

// openInbox opens a fresh schema with a table of the business.
func openInbox(t testing.TB) storetest.InboxStore[*sql.Tx] {
	t.Helper()
	return openInboxAt(t, postgres.DatabaseForTest(t))
}

func openInboxAt(t testing.TB, at string) storetest.InboxStore[*sql.Tx] {
	t.Helper()
	ctx := context.Background()
	s := postgres.OpenForTest(t, at, postgres.Config{MaxConns: 8})
	exec := func(ctx context.Context, query string, args ...any) error {
		_, err := s.DB().ExecContext(ctx, query, args...)
		return err
	}
	if err := exec(ctx, `CREATE TABLE t_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, row_id text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect: func(ctx context.Context, tx *sql.Tx, row string) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (row_id) VALUES ($1)`, row)
			return err
		},
		Effects: func(ctx context.Context) ([]string, error) { return effects(ctx, s.Reader()) },
		LeaveOver: func(ctx context.Context, group, eventID, status string, at time.Time) error {
			return exec(ctx, `INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES ($1,$2,$3,$4)`, group, eventID, status, at)
		},
		Tamper: func(ctx context.Context, seq int64) error {
			if err := exec(ctx, `UPDATE t_audit SET reason = 'x' WHERE seq = $1`, seq); err == nil {
				t.Error("the audit table lets an entry be changed")
			}
			if err := exec(ctx, `DELETE FROM t_audit WHERE seq = $1`, seq); err == nil {
				t.Error("the audit table lets an entry be deleted")
			}
			if err := exec(ctx, `TRUNCATE t_audit`); err == nil {
				t.Error("the audit table lets all entries be deleted")
			}
			if err := exec(ctx, `DROP TRIGGER audit_is_not_changed ON t_audit`); err != nil {
				return err
			}
			return exec(ctx, `UPDATE t_audit SET reason = 'x' WHERE seq = $1`, seq)
		},
		Garble: func(ctx context.Context, group, eventID string) error {
			return exec(ctx, `UPDATE t_consume_retry SET raw = '\xff' WHERE consumer_group = $1 AND event_id = $2`, group, eventID)
		},
	}
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
