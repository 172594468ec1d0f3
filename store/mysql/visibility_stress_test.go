package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
)

// The order of the log rests on one property of the server: a commit becomes
// visible before its locks are released. Writers of one key count in a row that
// they lock, so a snapshot that lacks a number below one that it has shows a
// transaction whose successor was visible first.

const snapshotCounts = `SELECT count(*), coalesce(max(e.aggregate_seq), 0), coalesce(min(e.aggregate_seq = e.nth), 1)
FROM (SELECT aggregate_seq, row_number() OVER (ORDER BY id) AS nth FROM t_outbox_event) e`

var errUndone = errors.New("undone on purpose")

// counting has n writers append numbered events of one key, each as one, and
// counts the snapshots that lack a number or have one out of place.
func counting(t *testing.T, s *mysql.Store, during time.Duration, one func(context.Context, *rand.Rand) error) (snapshots, torn int) {
	t.Helper()
	ctx := t.Context()
	end := time.Now().Add(during)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for time.Now().Before(end) && !t.Failed() {
				if err := one(ctx, r); err != nil && !errors.Is(err, errUndone) {
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

func TestACommitIsVisibleBeforeItsLocksAreReleased(t *testing.T) {
	t.Parallel()
	s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{MaxConns: 24})
	for _, q := range []string{createKeys, "INSERT INTO t_key VALUES ('k', 0)"} {
		if _, err := s.DB().ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	snapshots, torn := counting(t, s, 3*time.Second, func(ctx context.Context, r *rand.Rand) error {
		tx, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		n, err := count(ctx, tx, "k")
		if err != nil {
			return err
		}
		if err := s.Append(ctx, tx, &settle.Event{Type: "a", AggregateID: "k", AggregateSeq: n, Payload: []byte("{}")}); err != nil {
			return err
		}
		if r.IntN(10) < 3 {
			return errUndone
		}
		return tx.Commit()
	})
	if t.Logf("%d snapshots", snapshots); torn > 0 || snapshots < 20 {
		t.Errorf("%d of %d snapshots show an event without one that its writer waited for", torn, snapshots)
	}
}

func TestALockThatIsReleasedBeforeTheCommitShows(t *testing.T) {
	t.Parallel()
	// On a busy machine one round may have seen too little.
	for range 3 {
		s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{MaxConns: 24})
		var mu sync.Mutex
		n := int64(0)
		_, torn := counting(t, s, time.Second, func(ctx context.Context, _ *rand.Rand) error {
			tx, err := s.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			mu.Lock()
			e := &settle.Event{ID: fmt.Sprint(n), Type: "a", AggregateID: "k", AggregateSeq: n + 1, Payload: []byte("{}")}
			err = s.Append(ctx, tx, e)
			n++
			mu.Unlock()
			if err != nil {
				return err
			}
			return tx.Commit()
		})
		if torn > 0 {
			return
		}
	}
	t.Error("no snapshot is torn although locks are released before the commits")
}
