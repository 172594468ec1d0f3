package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/store/storetest"
)

func TestInbox(t *testing.T) {
	storetest.RunInbox(t, openInbox)
}

// openInbox opens a fresh file with a table of the business.
func openInbox(t testing.TB) storetest.InboxStore[*sql.Tx] {
	t.Helper()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "inventory.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	exec := func(ctx context.Context, query string, args ...any) error {
		_, err := s.DB().ExecContext(ctx, query, args...)
		return err
	}
	if err := exec(ctx, `CREATE TABLE t_effect (id INTEGER PRIMARY KEY AUTOINCREMENT, row TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect: func(ctx context.Context, tx *sql.Tx, row string) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (row) VALUES (?)`, row)
			return err
		},
		Effects: func(ctx context.Context) ([]string, error) { return effects(ctx, s.Reader()) },
		LeaveOver: func(ctx context.Context, group, eventID, status string, at time.Time) error {
			return exec(ctx, `INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES (?,?,?,?)`,
				group, eventID, status, at.UnixMicro())
		},
		Tamper: func(ctx context.Context, seq int64) error {
			if err := exec(ctx, `UPDATE t_audit SET reason = 'x' WHERE seq = ?`, seq); err == nil {
				t.Error("the audit table lets an entry be changed")
			}
			if err := exec(ctx, `DELETE FROM t_audit WHERE seq = ?`, seq); err == nil {
				t.Error("the audit table lets an entry be deleted")
			}
			if err := exec(ctx, `INSERT OR REPLACE INTO t_audit SELECT seq, at, actor, action, target, 'x', prev_hash, hash FROM t_audit WHERE seq = ?`, seq); err == nil {
				t.Error("the audit table lets an entry be replaced")
			}
			if err := exec(ctx, `DROP TRIGGER audit_is_not_changed`); err != nil {
				return err
			}
			return exec(ctx, `UPDATE t_audit SET reason = 'x' WHERE seq = ?`, seq)
		},
		Garble: func(ctx context.Context, group, eventID string) error {
			return exec(ctx, `UPDATE t_consume_retry SET raw = x'ff' WHERE consumer_group = ? AND event_id = ?`, group, eventID)
		},
	}
}

func effects(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT row FROM t_effect ORDER BY id`)
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
