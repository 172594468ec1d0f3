package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// gate keeps commits waiting while it is shut.
type gate struct {
	relay.Store
	way sync.RWMutex
}

func (g *gate) Commit(ctx context.Context, l relay.Lease, f relay.Flush) error {
	g.way.RLock()
	defer g.way.RUnlock()
	// Others meet the broken connections first, as a renewal of the lease may.
	for range 10 {
		if _, err := g.Controls(ctx); err == nil {
			break
		}
	}
	return g.Store.Commit(ctx, l, f)
}

// appendRows appends in one transaction; while a standby takes over it is tried
// again.
func appendRows(t *testing.T, s *postgres.Store, name string, n int) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := pgx.BeginFunc(t.Context(), s.Pool(), func(tx pgx.Tx) error {
			for i := range n {
				e := &settle.Event{ID: fmt.Sprintf("%s-%d", name, i), Type: "a", AggregateID: "k", Payload: []byte("{}")}
				if err := s.Pgx().Append(t.Context(), tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// TestIDsThatAStandbyGivesAgainAreRead: the relay has read and sent rows of which
// the standby knows nothing, and has not recorded it, so both know the same
// newest checkpoint.
func TestIDsThatAStandbyGivesAgainAreRead(t *testing.T) {
	primary, standby := pgserver.OwnPair(t)
	s := postgres.OpenForTest(t, primary.Either(standby, "again"), postgres.Config{})
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	g := &gate{Store: s.Log()}
	r := relay.New(g, b, relay.Config{})
	go func() { ended <- r.Run(ctx) }()
	sent := func(n int) {
		t.Helper()
		for until := time.Now().Add(30 * time.Second); len(b.Log(settle.DefaultTopic)) < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d events are never sent, it is %d", n, len(b.Log(settle.DefaultTopic)))
			}
		}
	}
	appendRows(t, s, "kept", 10)
	sent(10)
	standby.Await("SELECT count(*) = 10 FROM again.t_outbox_event")
	time.Sleep(100 * time.Millisecond) // the checkpoint behind them
	standby.Exec("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	standby.Await("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
	g.way.Lock()
	appendRows(t, s, "lost", 200)
	sent(11)
	primary.Kill()
	standby.Exec("SELECT pg_promote()")
	appendRows(t, s, "new", 200)
	g.way.Unlock()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, missing := concurrent.Compare(t, s.DB(), b.Log(settle.DefaultTopic))
		if len(missing) == 0 {
			break
		}
		if time.Now().After(until) {
			t.Errorf("%d rows are never sent: %q", len(missing), missing[:1])
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
}
