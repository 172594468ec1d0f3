package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

// The order of the log rests on one property of the server: a commit becomes
// visible before its locks are released. Writers of one key count in a row that
// they lock, so a snapshot that lacks a number below one that it has shows a
// transaction whose successor was visible first.

const snapshotCounts = `SELECT count(*), coalesce(max(aggregate_seq), 0),
 coalesce(bool_and(aggregate_seq = nth), true) FROM (SELECT aggregate_seq, row_number() OVER (ORDER BY id) AS nth FROM t_outbox_event) e`

// counting has n writers append numbered events of one key, and counts the
// snapshots that lack a number or have one out of place.
func counting(t *testing.T, s *postgres.Store, during time.Duration, take, free string) (snapshots, torn int) {
	t.Helper()
	ctx := t.Context()
	for _, q := range []string{createKeys, "INSERT INTO t_key VALUES ('k', 0)"} {
		if _, err := s.Pool().Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(during)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for time.Now().Before(end) && !t.Failed() {
				if err := countOne(ctx, s, r, take, free); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for time.Now().Before(end) {
		var n, highest int64
		var ordered bool
		if err := s.Reader().QueryRowContext(ctx, snapshotCounts).Scan(&n, &highest, &ordered); err != nil {
			t.Error(err)
			break
		}
		snapshots++
		if n != highest || !ordered {
			torn++
		}
	}
	group.Wait()
	return snapshots, torn
}

func countOne(ctx context.Context, s *postgres.Store, r *rand.Rand, take, free string) error {
	err := pgx.BeginFunc(ctx, s.Pool(), func(tx pgx.Tx) error {
		// Some commits wait for the disk and some do not: both must be seen in order.
		wait := []string{"on", "off"}[r.IntN(2)]
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = "+wait); err != nil {
			return err
		}
		var n int64
		if err := tx.QueryRow(ctx, take).Scan(&n); err != nil {
			return err
		}
		if err := s.Pgx().Append(ctx, tx, &settle.Event{Type: "a", AggregateID: "k", AggregateSeq: n, Payload: []byte("{}")}); err != nil {
			return err
		}
		if r.IntN(10) < 3 && free == "" {
			return errUndone
		}
		if free != "" {
			_, err := tx.Exec(ctx, free)
			return err
		}
		return nil
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

func TestACommitIsVisibleBeforeItsLocksAreReleased(t *testing.T) {
	t.Parallel()
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{MaxConns: 24})
	snapshots, torn := counting(t, s, 3*time.Second, `UPDATE t_key SET n = n + 1 WHERE key = 'k' RETURNING n`, "")
	if torn > 0 || snapshots < 20 {
		t.Errorf("%d of %d snapshots show an event without one that its writer waited for", torn, snapshots)
	}
}

func TestALockThatIsReleasedBeforeTheCommitShows(t *testing.T) {
	t.Parallel()
	// On a busy machine one round may have seen too little.
	for range 3 {
		s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{MaxConns: 24})
		if _, err := s.Pool().Exec(t.Context(), "CREATE SEQUENCE s_count"); err != nil {
			t.Fatal(err)
		}
		lock := time.Now().UnixNano()
		_, torn := counting(t, s, time.Second, fmt.Sprintf(`SELECT nextval('s_count') FROM pg_advisory_lock(%d)`, lock), fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, lock))
		if torn > 0 {
			return
		}
	}
	t.Error("no snapshot is torn although locks are released before the commits")
}
