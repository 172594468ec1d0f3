package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
)

// endIdle has n connections of the readers' pool made, given back, and ended by
// the server.
func endIdle(t *testing.T, s *postgres.Store, n int) {
	t.Helper()
	var pids []int32
	var open []*sql.Tx
	for range n {
		tx, err := s.Reader().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var pid int32
		if err := tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids, open = append(pids, pid), append(open, tx)
	}
	for _, tx := range open {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	var ended int
	if err := s.DB().QueryRow("SELECT count(*) FROM unnest($1::integer[]) p WHERE pg_terminate_backend(p, 60000)", pids).Scan(&ended); err != nil || ended != n {
		t.Fatalf("%d of %d connections were ended, %v", ended, n, err)
	}
}

func TestAReadDoesNotFailForAConnectionThatTheServerHasEndedWhileItWasIdle(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	for what, read := range map[string]func(ctx context.Context) error{
		"trail": func(ctx context.Context) error {
			_, err := s.Governance().Trail(ctx, "e")
			return err
		},
		"dead letters": func(ctx context.Context) error {
			_, err := s.Governance().DeadLetters(ctx, govern.Filter{})
			return err
		},
		"audit": func(ctx context.Context) error {
			_, err := s.Governance().Audit(ctx, 0, 10)
			return err
		},
		"standing": func(ctx context.Context) error {
			_, err := s.Governance().Standing(ctx)
			return err
		},
		"backlog": func(ctx context.Context) error {
			_, err := relay.Gauge(s.Log()).Backlog(ctx, 10)
			return err
		},
		"controls": func(ctx context.Context) error {
			_, err := s.Inbox().Controls(ctx)
			return err
		},
		"query": func(ctx context.Context) error {
			var one int
			return s.Reader().QueryRowContext(ctx, "SELECT 1").Scan(&one)
		},
		"transaction": func(ctx context.Context) error {
			tx, err := s.Reader().BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return err
			}
			_, err = tx.Exec("SELECT 1")
			return errors.Join(err, tx.Rollback())
		},
	} {
		endIdle(t, s, 4)
		if err := read(t.Context()); err != nil {
			t.Errorf("%s after its connections were ended: %v", what, err)
		}
	}
}
