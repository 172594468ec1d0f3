package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/concurrent"
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
	if err := exec(ctx, dialect().CreateEffects()); err != nil {
		t.Fatal(err)
	}
	return storetest.InboxStore[*sql.Tx]{
		Inbox:      s.Inbox(),
		Governance: s.Governance(),
		Effect:     writeEffect,
		Effects:    func(ctx context.Context) ([]string, error) { return concurrent.Effects(ctx, s.Reader()) },
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
