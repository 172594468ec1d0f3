package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
	"github.com/settlemq/settle/txmsg"
)

func TestHalfMessages(t *testing.T) { storetest.RunHalf(t, openHalves) }

func TestEveryRuleOfTheSuiteOfHalfMessagesFailsABrokenStore(t *testing.T) {
	broken.RunHalf(t, openHalves)
}

func openHalves(t testing.TB) storetest.HalfStore {
	t.Helper()
	clock := &testClock{at: time.Now()}
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "order.db"), sqlite.Config{Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.DB().Exec(`CREATE TABLE business (k TEXT PRIMARY KEY) STRICT`); err != nil {
		t.Fatal(err)
	}
	h := s.Halves()
	return storetest.HalfStore{
		Ledger: h, Governance: s.Governance(), Advance: clock.pass,
		Transact: func(ctx context.Context, r txmsg.Record, f func(context.Context, func(string) error) error) (txmsg.Outcome, error) {
			return h.Transact(ctx, r, func(ctx context.Context, tx *sql.Tx) error {
				return f(ctx, func(key string) error {
					_, err := tx.ExecContext(ctx, `INSERT INTO business (k) VALUES (?)`, key)
					return err
				})
			})
		},
		Rows: func() (n int) {
			if err := s.Reader().QueryRow(`SELECT count(*) FROM business`).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
	}
}
