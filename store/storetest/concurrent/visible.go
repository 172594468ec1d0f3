package concurrent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// The order of the log rests on one property of the server: a commit becomes
// visible before its locks are released. Writers of one key count in a row that
// they lock, so a snapshot that lacks a number below one that it has shows a
// transaction whose successor was visible first.

const snapshotCounts = `SELECT count(*), coalesce(max(e.aggregate_seq), 0), coalesce(sum(CASE WHEN e.aggregate_seq = e.nth THEN 0 ELSE 1 END), 0)
FROM (SELECT aggregate_seq, row_number() OVER (ORDER BY id) AS nth FROM t_outbox_event) e`

// snapshots lets writers append numbered events of one key, each by one, and
// counts the snapshots, and those that lack a number or have one out of place.
func snapshots[Tx any](t *testing.T, o *Outbox[Tx], during time.Duration, one func(ctx context.Context, tx Tx, r *rand.Rand) error) (all, torn int) {
	t.Helper()
	ctx := t.Context()
	end := time.Now().Add(during)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for time.Now().Before(end) && !t.Failed() {
				err := o.in(ctx, func(tx Tx) error { return one(ctx, tx, r) })
				if err != nil && !errors.Is(err, errUndone) {
					t.Error(err)
				}
			}
		})
	}
	for time.Now().Before(end) {
		var n, highest, astray int64
		if err := o.Reader.QueryRowContext(ctx, snapshotCounts).Scan(&n, &highest, &astray); err != nil {
			t.Error(err)
			break
		}
		all++
		if n != highest || astray > 0 {
			torn++
		}
	}
	group.Wait()
	return all, torn
}

// VisibleBeforeUnlocked checks that a commit becomes visible before its locks
// are released.
func VisibleBeforeUnlocked[Tx any](t *testing.T, o Outbox[Tx]) {
	for _, q := range []string{o.createKeys(), "INSERT INTO t_key VALUES ('k', 0)"} {
		if _, err := o.DB.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	all, torn := snapshots(t, &o, 3*time.Second, func(ctx context.Context, tx Tx, r *rand.Rand) error {
		// Some commits wait for the disk and some do not: both must be seen in order.
		if o.Hasty != "" && r.IntN(2) == 0 {
			if err := o.Exec(ctx, tx, o.Hasty); err != nil {
				return err
			}
		}
		n, err := o.count(ctx, tx, "k")
		if err != nil {
			return err
		}
		if err := o.append(ctx, tx, "", keyCounted, "k", n); err != nil {
			return err
		}
		if r.IntN(10) < 3 {
			return errUndone
		}
		return nil
	})
	if t.Logf("%d snapshots", all); torn > 0 || all < 20 {
		t.Errorf("%d of %d snapshots show an event without one that its writer waited for", torn, all)
	}
}

// UnlockedBeforeVisible shows that VisibleBeforeUnlocked bites: writers whose
// lock is released before the commit are found out. open returns an empty outbox
// each time.
func UnlockedBeforeVisible[Tx any](t *testing.T, open func(t testing.TB) Outbox[Tx]) {
	// On a busy machine one round may have seen too little.
	for range 3 {
		o := open(t)
		var mu sync.Mutex
		n := int64(0)
		_, torn := snapshots(t, &o, time.Second, func(ctx context.Context, tx Tx, _ *rand.Rand) error {
			mu.Lock()
			defer mu.Unlock()
			n++
			return o.append(ctx, tx, fmt.Sprint(n), keyCounted, "k", n)
		})
		if torn > 0 {
			return
		}
	}
	t.Error("no snapshot is torn although locks are released before the commits")
}
