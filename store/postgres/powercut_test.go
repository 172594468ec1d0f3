package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
)

// ownServer is one that the test may kill.
func ownServer(t *testing.T) *pgserver.Server {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("kills a server of its own: a long test, run by scripts/test all")
	}
	return pgserver.Own(t)
}

// hasty believes that all it reads is on the disk.
type hasty struct{ relay.Store }

func (h hasty) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	p, err := h.Store.Poll(ctx, q)
	p.NotDurable = false
	return p, err
}

// cutPower has programs write whose commits do not wait for the disk, kills the
// server again and again under the relay, and returns what was published and is
// not in the table, and what is in the table and was never published.
func cutPower(t *testing.T, s *pgserver.Server, log func(*postgres.Store) relay.Store, times int) (vanished, missing []string) {
	t.Helper()
	store := postgres.OpenForTest(t, s.URL(strings.ReplaceAll("cut_"+settle.NewID(), "-", "")), postgres.Config{})
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r := relay.New(log(store), b, relay.Config{LeaseTTL: 3 * time.Second})
	go func() { ended <- r.Run(ctx) }()
	for cut := range times {
		stop := make(chan struct{})
		var group sync.WaitGroup
		for w := range 4 {
			group.Go(func() { appendHastily(ctx, store, fmt.Sprintf("%d-%d", cut, w), stop) })
		}
		time.Sleep(700 * time.Millisecond)
		s.Kill()
		close(stop)
		group.Wait()
		s.Start()
	}
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		vanished, missing = compare(t, store, b.Log(settle.DefaultTopic))
		if len(missing) == 0 || time.Now().After(until) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
	return vanished, missing
}

// appendHastily ends with the first error: the server is gone.
func appendHastily(ctx context.Context, s *postgres.Store, name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		err := pgx.BeginFunc(ctx, s.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return err
			}
			return s.Pgx().Append(ctx, tx, &settle.Event{ID: fmt.Sprintf("%s-%d", name, i), Type: "a", AggregateID: name, Payload: []byte("{}")})
		})
		if err != nil {
			return
		}
	}
}

func compare(t *testing.T, s *postgres.Store, log []settle.Record) (vanished, missing []string) {
	t.Helper()
	there := map[string]bool{}
	rows, err := s.Pool().Query(t.Context(), "SELECT event_id FROM t_outbox_event")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { there[id] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	published := map[string]bool{}
	for _, r := range log {
		if published[r.Event.ID] = true; !there[r.Event.ID] {
			vanished = append(vanished, r.Event.ID)
		}
	}
	for id := range there {
		if !published[id] {
			missing = append(missing, id)
		}
	}
	return vanished, missing
}

func TestNothingIsPublishedThatAPowerCutTakesBack(t *testing.T) {
	s := ownServer(t)
	vanished, missing := cutPower(t, s, func(p *postgres.Store) relay.Store { return p.Log() }, 6)
	if len(vanished) > 0 || len(missing) > 0 {
		t.Errorf("published and gone: %q; never published: %q", vanished, missing)
	}
	for range 5 {
		if vanished, _ := cutPower(t, s, func(p *postgres.Store) relay.Store { return hasty{p.Log()} }, 3); len(vanished) > 0 {
			return
		}
	}
	t.Error("a relay that does not look whether a row is on the disk loses nothing either: the test proves nothing")
}

func TestWithASynchronousStandbyNothingThatIsReadCountsAsDurable(t *testing.T) {
	srv := ownServer(t)
	s := postgres.OpenForTest(t, srv.URL("standby"), postgres.Config{})
	l := s.Log()
	wants := func(want bool) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			p, err := l.Poll(t.Context(), relay.PollQuery{MaxRows: 10, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if p.NotDurable == want {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("a page is not durable is %v, want %v", p.NotDurable, want)
			}
		}
	}
	wants(false)
	srv.Exec("ALTER SYSTEM SET synchronous_standby_names = 'far_away'", "SELECT pg_reload_conf()")
	wants(true)
}
