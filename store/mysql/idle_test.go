package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
)

// endIdle has n connections of the readers' pool made, given back, and ended by
// the server.
func endIdle(t *testing.T, s *mysql.Store, n int) {
	t.Helper()
	var ids []int64
	var open []*sql.Tx
	for range n {
		tx, err := s.Reader().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var id int64
		if err := tx.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids, open = append(ids, id), append(open, tx)
	}
	for _, tx := range open {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if _, err := s.DB().Exec(fmt.Sprint("KILL CONNECTION ", id)); err != nil {
			t.Fatal(err)
		}
	}
	for left := len(ids); left > 0; {
		left = 0
		for _, id := range ids {
			var there int
			if err := s.DB().QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id).Scan(&there); err != nil {
				t.Fatal(err)
			}
			left += there
		}
	}
}

func TestAReadDoesNotFailForAConnectionThatTheServerHasEndedWhileItWasIdle(t *testing.T) {
	s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{})
	for what, read := range map[string]func(ctx context.Context) error{
		"trail": func(ctx context.Context) error {
			_, err := s.Governance().Trail(ctx, "e")
			return err
		},
		"dead letters": func(ctx context.Context) error {
			_, err := s.Governance().DeadLetters(ctx, govern.Filter{})
			return err
		},
		"backlog": func(ctx context.Context) error {
			_, err := relay.Gauge(s.Log()).Backlog(ctx, 10)
			return err
		},
		"query": func(ctx context.Context) error {
			var one int
			return s.Reader().QueryRowContext(ctx, "SELECT 1").Scan(&one)
		},
	} {
		endIdle(t, s, 4)
		if err := read(t.Context()); err != nil {
			t.Errorf("%s after its connections were ended: %v", what, err)
		}
	}
}
