package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/concurrent"
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
	if err := exec(ctx, dialect().CreateEffects()); err != nil {
		t.Fatal(err)
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect:     dialect().WriteEffect,
		Effects:    func(ctx context.Context) ([]string, error) { return concurrent.Effects(ctx, s.Reader()) },
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
