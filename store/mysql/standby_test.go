package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// mortal is the store of a relay whose process loses the database for ever: it
// neither writes nor resigns.
type mortal struct {
	*mysql.Log
	dead *atomic.Bool
}

var errDead = errors.New("the process has died")

func (m *mortal) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	if m.dead.Load() {
		return relay.Lease{}, errDead
	}
	return m.Log.Lead(ctx, owner, lane, ttl)
}

func (m *mortal) Load(ctx context.Context, l relay.Lease) (relay.State, error) {
	if m.dead.Load() {
		return relay.State{}, errDead
	}
	return m.Log.Load(ctx, l)
}

func (m *mortal) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	if m.dead.Load() {
		return relay.Page{}, errDead
	}
	return m.Log.Poll(ctx, q)
}

func (m *mortal) Commit(ctx context.Context, l relay.Lease, f relay.Flush) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Log.Commit(ctx, l, f)
}

func (m *mortal) Resign(ctx context.Context, l relay.Lease) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Log.Resign(ctx, l)
}

func TestAStandbyGoesOnInOrderWhereADeadLeaderStopped(t *testing.T) {
	t.Parallel()
	at := mysql.DatabaseForTest(t)
	s, other := mysql.OpenForTest(t, at, mysql.Config{MaxConns: 24}), mysql.OpenForTest(t, at, mysql.Config{})
	relays := map[string]*mortal{"relay-0": {s.Log(), &atomic.Bool{}}, "relay-1": {other.Log(), &atomic.Bool{}}}
	standing := func() (leader string, newest int64) {
		err := s.Reader().QueryRowContext(t.Context(), "SELECT l.owner, (SELECT coalesce(max(epoch), 0) FROM t_outbox_checkpoint) FROM t_outbox_lease l").Scan(&leader, &newest)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Error(err)
		}
		return leader, newest
	}
	succeeded := func() bool {
		_, newest := standing()
		return newest > 1
	}
	wrong, sent := concurrent.Carry(t, []relay.Store{relays["relay-0"], relays["relay-1"]}, 60*time.Second, succeeded, func() map[string]int64 {
		var group sync.WaitGroup
		group.Go(func() {
			leader, newest := "", int64(0)
			for newest == 0 && !t.Failed() {
				time.Sleep(50 * time.Millisecond)
				leader, newest = standing()
			}
			time.Sleep(500 * time.Millisecond)
			relays[leader].dead.Store(true)
		})
		want := concurrent.Write(t, written(t, s), concurrent.Load{Writers: 8, Keys: 20, During: 3 * time.Second})
		group.Wait()
		return want
	})
	for _, w := range wrong {
		t.Error(w)
	}
	if t.Logf("%d events", sent); sent < 100 || !succeeded() {
		t.Error("too few to say anything, or nobody took over")
	}
}
