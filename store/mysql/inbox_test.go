package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/concurrent"
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
	if _, err := s.DB().ExecContext(context.Background(), dialect().CreateEffects()); err != nil {
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
		Effects:    func(ctx context.Context) ([]string, error) { return concurrent.Effects(ctx, s.Reader()) },
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
