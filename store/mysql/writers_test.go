package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

const (
	countFourMore = `UPDATE t_key SET n = n + 4 WHERE name = ?`
	insertFive    = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, aggregate_seq, payload)
SELECT CONCAT(?, '-', n), 'key.counted', ?, ? + n - 1, '{}' FROM t_source ORDER BY n`
)

// written is the outbox of the first store; each store has a relay.
func written(t testing.TB, s *mysql.Store, others ...*mysql.Store) concurrent.Outbox[*sql.Tx] {
	t.Helper()
	for _, q := range []string{`CREATE TABLE t_source (n BIGINT NOT NULL PRIMARY KEY)`, `INSERT INTO t_source VALUES (1), (2), (3), (4), (5)`} {
		if _, err := s.DB().ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	o := concurrent.SQL(process(s))
	for _, other := range others {
		o.Logs = append(o.Logs, other.Log())
	}
	// The server gives an INSERT … SELECT more ids than it needs.
	o.Insert = func(ctx context.Context, tx *sql.Tx, name, key string, n int64) error {
		if err := o.Exec(ctx, tx, countFourMore, key); err != nil {
			return err
		}
		return o.Exec(ctx, tx, insertFive, name, key, n)
	}
	// A deadlock, or a lock that was not given in time.
	o.Undone = func(err error) bool {
		var e *driver.MySQLError
		return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
	}
	return o
}

func ownOutbox(t testing.TB) concurrent.Outbox[*sql.Tx] {
	at := mysql.DatabaseForTest(t)
	return written(t, mysql.OpenForTest(t, at, mysql.Config{MaxConns: 24}), mysql.OpenForTest(t, at, mysql.Config{}))
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
