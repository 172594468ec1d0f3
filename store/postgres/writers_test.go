package postgres_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// written is the outbox of the first store for transactions of pgx itself; each
// store has a relay.
func written(s *postgres.Store, others ...*postgres.Store) concurrent.Outbox[pgx.Tx] {
	logs := []relay.Store{s.Log()}
	for _, other := range others {
		logs = append(logs, other.Log())
	}
	return concurrent.Outbox[pgx.Tx]{
		Dialect: dialect(), Outbox: s.Pgx(), DB: s.DB(), Reader: s.Reader(), Logs: logs,
		Begin:    s.Pool().Begin,
		Commit:   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		Rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		Exec: func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
			_, err := tx.Exec(ctx, query, args...)
			return err
		},
		Number: func(ctx context.Context, tx pgx.Tx, query string, args ...any) (n int64, err error) {
			err = tx.QueryRow(ctx, query, args...).Scan(&n)
			return n, err
		},
		End: func(ctx context.Context, tx pgx.Tx, name string, undo bool) error {
			return prepared(ctx, s, tx, name, undo)
		},
		Hasty: "SET LOCAL synchronous_commit = off",
	}
}

// prepared ends a transaction in two phases, the second of which comes later.
func prepared(ctx context.Context, s *postgres.Store, tx pgx.Tx, name string, undo bool) error {
	if _, err := tx.Exec(ctx, "PREPARE TRANSACTION '"+name+"'"); err != nil {
		return err
	}
	if err := tx.Rollback(ctx); err != nil { // the session has none any more; it goes back to the pool
		return err
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	end := "COMMIT PREPARED '"
	if undo {
		end = "ROLLBACK PREPARED '"
	}
	_, err := s.Pool().Exec(ctx, end+name+"'")
	return err
}

func ownOutbox(t testing.TB) concurrent.Outbox[pgx.Tx] {
	at := postgres.DatabaseForTest(t)
	return written(postgres.OpenForTest(t, at, postgres.Config{MaxConns: 24}), postgres.OpenForTest(t, at, postgres.Config{}))
}

func TestFirstCopiesOfEachKeyAreInOrderAndCompleteUnderManyWriters(t *testing.T) {
	concurrent.CopiesInOrder(t, ownOutbox(t))
}

func TestTheLogShowsARelayThatReadsMissingIDsLateOrWritersThatLockLate(t *testing.T) {
	concurrent.Misordered(t, ownOutbox)
}

func TestACommitIsVisibleBeforeItsLocksAreReleased(t *testing.T) {
	t.Parallel()
	concurrent.VisibleBeforeUnlocked(t, ownOutbox(t))
}

func TestALockThatIsReleasedBeforeTheCommitShows(t *testing.T) {
	t.Parallel()
	concurrent.UnlockedBeforeVisible(t, ownOutbox)
}
