package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
	"github.com/settlemq/settle/txmsg"
)

func TestHalfMessages(t *testing.T) { storetest.RunHalf(t, halves(t, false)) }

func TestHalfMessagesWithTransactionsOfPgxItself(t *testing.T) {
	storetest.RunHalf(t, halves(t, true))
}

func TestEveryRuleOfTheSuiteOfHalfMessagesFailsABrokenStore(t *testing.T) {
	broken.RunHalf(t, halves(t, false))
}

const (
	makeBusiness  = `CREATE TABLE IF NOT EXISTS business (k text PRIMARY KEY)`
	writeBusiness = `INSERT INTO business (k) VALUES ($1)`
)

// halves returns what opens an empty schema for each case of a suite.
func halves(suite testing.TB, pgxItself bool) func(t testing.TB) storetest.HalfStore {
	schemas := postgres.NewSchemasForTest(suite)
	return func(t testing.TB) storetest.HalfStore {
		t.Helper()
		clock := &testClock{at: time.Now()}
		s := postgres.OpenForTest(t, schemas.Take(t)+"&synchronous_commit=off", postgres.Config{MaxConns: 4, Clock: clock.now})
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
		if pgxItself {
			transact = func(ctx context.Context, r txmsg.Record, f func(context.Context, func(string) error) error) (txmsg.Outcome, error) {
				return s.PgxHalves().Transact(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
					return f(ctx, func(key string) error {
						_, err := tx.Exec(ctx, writeBusiness, key)
						return err
					})
				})
			}
		}
		return storetest.HalfStore{Ledger: h, Governance: s.Governance(), Advance: clock.pass, Transact: transact, Rows: func() (n int) {
			if err := s.Reader().QueryRow(`SELECT count(*) FROM business`).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		}}
	}
}
