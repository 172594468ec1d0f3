package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
	"github.com/settlemq/settle/txmsg"
)

func TestHalfMessages(t *testing.T) { storetest.RunHalf(t, halves(t)) }

func TestEveryRuleOfTheSuiteOfHalfMessagesFailsABrokenStore(t *testing.T) {
	broken.RunHalf(t, halves(t))
}

const (
	makeBusiness  = `CREATE TABLE IF NOT EXISTS business (k VARCHAR(64) PRIMARY KEY)`
	writeBusiness = `INSERT INTO business (k) VALUES (?)`
)

// halves returns what opens an empty database for each case of a suite.
func halves(suite testing.TB) func(t testing.TB) storetest.HalfStore {
	databases := mysql.NewDatabasesForTest(suite)
	return func(t testing.TB) storetest.HalfStore {
		t.Helper()
		clock := &testClock{at: time.Now()}
		s := mysql.OpenForTest(t, databases.Take(t), mysql.Config{MaxConns: 4, Clock: clock.now})
		if _, err := s.DB().Exec(makeBusiness); err != nil {
			t.Fatal(err)
		}
		h := s.Halves()
		transact := func(ctx context.Context, r txmsg.Record, f func(context.Context, func(string) error) error) (txmsg.Outcome, error) {
			return h.Transact(ctx, r, func(ctx context.Context, tx *sql.Tx) error {
				return f(ctx, func(key string) error {
					_, err := tx.ExecContext(ctx, writeBusiness, key)
					return err
				})
			})
		}
		return storetest.HalfStore{Ledger: h, Governance: s.Governance(), Advance: clock.pass, Transact: transact, Rows: func() (n int) {
			if err := s.Reader().QueryRow(`SELECT count(*) FROM business`).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		}}
	}
}
