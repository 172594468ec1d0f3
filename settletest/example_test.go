package settletest_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/settletest"
	"github.com/settlemq/settle/store/sqlite"
)

// shop is what a user's program would set up: a database, a broker, a relay
// and a consumer that counts.
type shop struct {
	db     *sqlite.Store
	broker *nats.Broker
	rec    *settletest.Recorder[*sql.Tx]
	count  *consumer.Consumer[*sql.Tx]
	relay  *relay.Relay
}

func openShop(t *testing.T, dir string, crash func(string)) shop {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		t.Fatal(err)
	}
	settletest.Run(t, server)
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "shop.db"), sqlite.Config{Crash: crash})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	broker, err := nats.Open(t.Context(), server.URL(), nats.Config{Topics: []string{settle.DefaultTopic}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	inTx(t, db, func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS counted (order_id TEXT NOT NULL)`)
		return err
	})
	rec := settletest.Record(db.Inbox())
	c := consumer.New("counting", broker, rec, consumer.Config{Topics: []string{settle.DefaultTopic}, Crash: crash})
	c.Handle("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO counted VALUES (?)`, e.AggregateID)
		return err
	})
	return shop{db: db, broker: broker, rec: rec, count: c, relay: relay.New(db.Log(), broker, relay.Config{Crash: crash, LeaseTTL: 500 * time.Millisecond})}
}

func inTx(t *testing.T, db *sqlite.Store, do func(tx *sql.Tx) error) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := do(tx); err != nil {
		t.Fatal(errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func order(id string) *settle.Event {
	return &settle.Event{ID: "event-of-" + id, Type: "order.created", AggregateType: "order", AggregateID: id, Payload: []byte(`{}`)}
}

func (s shop) counted(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.DB().QueryRow(`SELECT count(*) FROM counted`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAwaitReturnsWhenAllGroupsHaveAppliedTheEvent(t *testing.T) {
	s := openShop(t, t.TempDir(), nil)
	settletest.Run(t, s.relay, s.count)
	inTx(t, s.db, func(tx *sql.Tx) error { return s.db.Append(t.Context(), tx, order("o-1")) })
	if v := s.rec.Await(t, "event-of-o-1", "counting"); v[0] != settle.VerdictApplied {
		t.Errorf("verdict is %v", v)
	}
	if n, times := s.counted(t), s.rec.Applied("counting", "event-of-o-1"); n != 1 || times != 1 {
		t.Errorf("%d effects, applied %d times", n, times)
	}
}

func TestAProcessThatDiesAfterPublishingLeavesOneEffect(t *testing.T) {
	dir := settletest.Dir(t)
	settletest.Crash(t, dir, "relay.after_publish", 1, func(crash func(string)) {
		s := openShop(t, dir, crash)
		inTx(t, s.db, func(tx *sql.Tx) error { return s.db.Append(t.Context(), tx, order("o-1")) })
		settletest.Run(t, s.relay)
		select {}
	})
	s := openShop(t, dir, nil)
	settletest.Run(t, s.relay, s.count)
	// The event after it tells that whatever was sent again has come, too.
	inTx(t, s.db, func(tx *sql.Tx) error { return s.db.Append(t.Context(), tx, order("o-2")) })
	s.rec.Await(t, "event-of-o-1", "counting")
	s.rec.Await(t, "event-of-o-2", "counting")
	if n := s.counted(t); n != 2 {
		t.Errorf("%d effects of two orders", n)
	}
}

type ends struct{ err error }

func (e ends) Run(context.Context) error { return e.err }

// told records what a test would have been told.
type told struct {
	testing.TB
	errors int
}

func (r *told) Errorf(string, ...any) { r.errors++ }
func (r *told) Helper()               {}
func (r *told) Cleanup(func())        {}

func TestARunnerThatEndsWithAnErrorFailsTheTest(t *testing.T) {
	r := &told{}
	settletest.Run(r, ends{errors.New("no such topic")})()
	if r.errors != 1 {
		t.Errorf("%d errors were told", r.errors)
	}
}
