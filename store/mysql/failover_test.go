package mysql_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// onlyLong skips a test of the long run.
func onlyLong(t *testing.T) {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes long: SETTLE_TEST_ALL=1 runs it")
	}
}

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

// appendRows appends in one transaction; while a replica takes over it is tried
// again.
func appendRows(t *testing.T, s *mysql.Store, name string, n int) {
	t.Helper()
	var all []*settle.Event
	for i := range n {
		all = append(all, &settle.Event{ID: fmt.Sprintf("%s-%d", name, i), Type: "a", AggregateID: "k", Payload: []byte("{}")})
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := appendAll(t.Context(), s, all)
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

func appendAll(ctx context.Context, s *mysql.Store, all []*settle.Event) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.Append(ctx, tx, all...); err != nil {
		return err
	}
	return tx.Commit()
}

// TestIDsThatAReplicaGivesAgainAreRead: the relay has read and sent rows of which
// the replica knows nothing, and has not recorded it, so both know the same
// newest checkpoint.
func TestIDsThatAReplicaGivesAgainAreRead(t *testing.T) {
	onlyLong(t)
	p := myserver.Replicated(t, "again")
	s := mysql.OpenForTest(t, p.At, mysql.Config{})
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	g := &gate{Store: s.Log()}
	r := relay.New(g, b, relay.Config{})
	go func() { ended <- r.Run(ctx) }()
	sent := func(n int) {
		t.Helper()
		for until := time.Now().Add(time.Minute); len(b.Log(settle.DefaultTopic)) < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d events are never sent, it is %d", n, len(b.Log(settle.DefaultTopic)))
			}
		}
	}
	appendRows(t, s, "kept", 10)
	sent(10)
	time.Sleep(100 * time.Millisecond) // the checkpoint behind them
	p.Replica.Follows(p.Primary)
	p.Replica.Exec("STOP SLAVE IO_THREAD")
	g.way.Lock()
	appendRows(t, s, "lost", 200)
	sent(11)
	p.Primary.Kill()
	p.Promote()
	appendRows(t, s, "new", 200)
	g.way.Unlock()
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
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
