package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// classicSchema returns the URL of a schema with the classic tables and that of
// the one for Settle's.
func classicSchema(t *testing.T) (theirs, ours, schema string) {
	t.Helper()
	theirs, ours = postgres.DatabaseForTest(t), postgres.DatabaseForTest(t)
	u, err := url.Parse(theirs)
	if err != nil {
		t.Fatal(err)
	}
	schema = u.Query().Get("search_path")
	onConn(t, theirs, "CREATE SCHEMA "+schema)
	onConn(t, theirs, classicTables)
	return theirs, ours, schema
}

func onConn(t *testing.T, at, text string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// jpaLoad has sessions work until stop is called, which returns how many orders
// each has placed. It returns once every statement is warm.
func jpaLoad(t *testing.T, at string) (stop func() map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var warm sync.WaitGroup
	var mu sync.Mutex
	placed := map[string]int{}
	for i := range 4 {
		s, err := openJPA(ctx, at, fmt.Sprint("jpa", i))
		if err != nil {
			t.Fatal(err)
		}
		warm.Add(1)
		group.Go(func() {
			defer func() { _ = s.conn.Close(context.WithoutCancel(ctx)) }()
			rounds := 0
			for ; ctx.Err() == nil || rounds < 10; rounds++ {
				if rounds == 10 {
					warm.Done()
				}
				if err := s.place(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("round %d: %v", rounds, err)
					break
				}
			}
			if rounds <= 10 {
				warm.Done()
			}
			mu.Lock()
			placed[s.name] = rounds
			mu.Unlock()
		})
	}
	warm.Wait()
	return func() map[string]int {
		cancel()
		group.Wait()
		return placed
	}
}

func TestWhatHibernateSendsGoesOnOnWarmConnectionsWhileItsTableIsAdopted(t *testing.T) {
	t.Parallel()
	theirs, ours, schema := classicSchema(t)
	stop := jpaLoad(t, theirs)
	adopt(t, ours, schema)
	s := postgres.OpenForTest(t, ours, postgres.Config{})
	// One that was opened since, a session by hand, and ids from a pool.
	fresh, err := openJPA(t.Context(), theirs, "fresh")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.conn.Close(context.WithoutCancel(t.Context())) }()
	for _, do := range []func(context.Context) error{fresh.place, fresh.pooled} {
		if err := do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	onConn(t, theirs, psqlText)
	relayJPA(t, s, func() int {
		total := 4
		for name, n := range stop() {
			if n <= 10 {
				t.Errorf("%s has placed only %d orders", name, n)
			}
			total += 2 * n
		}
		return total
	})
	// The service's relay reads and saves whole rows of it, as before.
	for _, do := range []func(context.Context) error{fresh.place, fresh.relayOne} {
		if err := do(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// relayJPA relays until all that finish counts has arrived, each once and as the
// table has it.
func relayJPA(t *testing.T, s *postgres.Store, finish func() int) {
	t.Helper()
	b := memory.New(memory.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := relay.New(s.Log(), b, relay.Config{}).Run(ctx); err != nil {
			t.Errorf("relay: %v", err)
		}
	})
	want := finish()
	for late := time.Now().Add(20 * time.Second); len(b.Log(settle.DefaultTopic)) < want && time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
	}
	cancel()
	group.Wait()
	if got := len(b.Log(settle.DefaultTopic)); got != want {
		t.Errorf("%d events were sent, want %d", got, want)
	}
	last := map[string]string{}
	for _, r := range b.Log(settle.DefaultTopic) {
		var text, status string
		if err := s.Pool().QueryRow(t.Context(), "SELECT payload::text, status FROM "+theirTable(t, s)+" WHERE event_id = $1", r.Event.ID).Scan(&text, &status); err != nil {
			t.Fatal(err)
		}
		if text != string(r.Raw) || status != "SENT" {
			t.Errorf("event %s is %s, was sent as\n%s\nand is in the table\n%s", r.Event.ID, status, r.Raw, text)
		}
		if key := r.Event.AggregateID; r.Event.Type == "order.amended" && last[key] != "order.created" {
			t.Errorf("%s was amended before it was created", key)
		}
		last[r.Event.AggregateID] = r.Event.Type
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func theirTable(t *testing.T, s *postgres.Store) (name string) {
	t.Helper()
	if err := s.Pool().QueryRow(t.Context(), "SELECT settle_outbox_table()::text").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

func adopt(t *testing.T, ours, schema string) {
	t.Helper()
	a, err := postgres.NewAdopt(ours, migrate.AdoptConfig{Table: schema + ".t_outbox_event", Zone: jpaZone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// psqlText is what a person types: what it does not name has the table's
// defaults, by the clock of a session in another zone.
const psqlText = `
INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES ('by-hand-created', 'Order', 'by-hand', 'order.created', '{"eventId": "by-hand-created", "eventType": "order.created", "aggregateId": "by-hand", "payload": {}}', 'PENDING');`

func TestAColumnThatIsAddedToTheTableOfAWarmServiceFailsItsRequests(t *testing.T) {
	t.Parallel()
	theirs, _, _ := classicSchema(t)
	s, err := openJPA(t.Context(), theirs, "warm")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.conn.Close(context.WithoutCancel(t.Context())) }()
	for range 2 {
		if err := s.place(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	onConn(t, theirs, "ALTER TABLE t_outbox_event ADD COLUMN lane int")
	if err := s.place(t.Context()); err == nil || !strings.Contains(err.Error(), "cached plan must not change result type") {
		t.Errorf("after the column was added: %v", err)
	}
}
