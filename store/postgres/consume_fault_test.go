package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// lines are the log of a consumer.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

const (
	storeDown = "state=store now=down"
	storeUp   = "state=store now=up"
)

// run is a consumer of events a-001 to a-003, b-001 to b-003 and so on.
type run struct {
	stats consumer.Stats
	log   *lines
}

// consumeAll runs a consumer until every event has taken effect.
func consumeAll(t *testing.T, s *postgres.Store, handle func(ctx context.Context, tx *sql.Tx, e *settle.Event) error) run {
	t.Helper()
	const keys, each = 3, 3
	broker := memory.New(memory.Config{})
	defer func() { _ = broker.Close() }()
	var batch []settle.Message
	for n := 1; n <= each; n++ {
		for k := range keys {
			e := concurrent.Item(string(rune('a'+k)), n).Record.Event
			e.Topic = settle.DefaultTopic
			batch = append(batch, settle.Message{Event: e, ID: e.ID})
		}
	}
	for _, r := range broker.Publish(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	r := run{log: &lines{}}
	c := consumer.New("g", broker, s.Inbox(), consumer.Config{
		RetryPoll: 20 * time.Millisecond, StoreWait: 10 * time.Millisecond, MaxStoreWait: 50 * time.Millisecond,
		Retry: settle.Backoff{Base: time.Millisecond}, HandlerTimeout: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		if err := writeEffect(ctx, tx, e.ID); err != nil {
			return err
		}
		return handle(ctx, tx, e)
	})
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for c.Stats().Applied < keys*each && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Errorf("%+v\n%s", c.Stats(), r.log.buf.String())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.stats = c.Stats()
	// A connection that the server has ended while it was idle says so at its
	// next use.
	for range 16 {
		_ = s.Reader().PingContext(t.Context())
	}
	concurrent.WantOnceInOrder(t, s.Reader(), keys*each)
	return r
}

// nobodysFault wants that nothing was counted as an attempt and that the log
// has a line for each change of state.
func (r run) nobodysFault(t *testing.T, s *postgres.Store) {
	t.Helper()
	var parked, dead int
	err := s.DB().QueryRow(`SELECT (SELECT count(*) FROM t_consume_retry), (SELECT count(*) FROM t_dead_letter)`).Scan(&parked, &dead)
	if err != nil || r.stats.Failed != 0 || parked+dead != 0 {
		t.Errorf("%d attempts have failed, %d events wait, %d are dead, %v; want none", r.stats.Failed, parked, dead, err)
	}
	if down, up := r.log.count(storeDown), r.log.count(storeUp); down != up {
		t.Errorf("the store went down %d times and up %d times:\n%s", down, up, r.log.buf.String())
	}
}

func raise(state string) string {
	return `DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '` + state + `'; END $$`
}

// What our own database can't do is no event's fault, whichever statement finds it.
func TestWhatTheServerCanNotDoCostsNoEventAnAttempt(t *testing.T) {
	for state, name := range map[string]string{
		"40001": "serialization failure", "40P01": "deadlock", "55P03": "lock time-out", "57P01": "shutdown", "57P03": "starting up",
		"53100": "disk full", "53200": "out of memory", "53300": "too many connections", "58030": "disk error", "25006": "read-only",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := processes(t, 1)[0]
			var left atomic.Int32
			left.Store(5)
			consumeAll(t, s, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				if e.AggregateSeq != 2 || left.Add(-1) < 0 {
					return nil
				}
				_, err := tx.ExecContext(ctx, raise(state))
				return fmt.Errorf("handle: %w", err)
			}).nobodysFault(t, s)
		})
	}
}

// The same, found by the store's own statements: the consume log can't be written.
func TestAFullDiskPausesDeliveryUntilThereIsRoom(t *testing.T) {
	s := processes(t, 1, `CREATE TABLE t_room (tries bigint)`, `CREATE SEQUENCE tries`,
		`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		  IF nextval('tries') < 12 THEN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON t_message_consume_log FOR EACH ROW EXECUTE FUNCTION full_disk()`)[0]
	r := consumeAll(t, s, func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	if r.stats.Failed != 0 || r.log.count(storeDown) != 1 || r.log.count(storeUp) != 1 {
		t.Errorf("%d attempts failed; the log is\n%s", r.stats.Failed, r.log.buf.String())
	}
}

// What a handler does to its own transaction is an attempt, and the cause says
// what it was.
func TestWhatAHandlerDoesToItsTransactionIsAnAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(ctx context.Context, tx *sql.Tx) error
		cause string
	}{
		"a statement that takes too long": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SET LOCAL statement_timeout = 20; SELECT pg_sleep(10)`)
			return err
		}, "statement timeout"},
		"a statement that outlasts the handler's time": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT pg_sleep(10)`)
			return err
		}, "handler exceeded its timeout"},
		"silence": {func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 20`); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond) // what it waits for is another system
			return nil
		}, "said nothing to the database"},
		"an error that it overlooks": {func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, `SELECT 1 / 0`)
			return nil
		}, "overlooked an error"},
		"another isolation": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`)
			return err
		}, "SET TRANSACTION ISOLATION LEVEL must be called before any query"},
		"another server that is away": {func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the carrier: %w", errAway{})
		}, "ask the carrier"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := processes(t, 1)[0]
			why := "" // written by the one transaction at a time
			r := consumeAll(t, s, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				if e.ID != "b-003" {
					return nil
				}
				err := s.DB().QueryRowContext(ctx, `SELECT coalesce(max(cause), '') FROM t_consume_retry`).Scan(&why)
				if err != nil || why != "" {
					return err
				}
				return c.do(ctx, tx)
			})
			if r.stats.Failed != 1 || !strings.Contains(why, c.cause) {
				t.Errorf("%d attempts failed, want one, because of %q; the row says %q", r.stats.Failed, c.cause, why)
			}
			if down := r.log.count(storeDown); down != 0 {
				t.Errorf("the store is called down:\n%s", r.log.buf.String())
			}
		})
	}
}

// errAway is an error of a network that is not our database's.
type errAway struct{}

func (errAway) Error() string   { return "connection refused" }
func (errAway) Timeout() bool   { return false }
func (errAway) Temporary() bool { return false }

// A setting that sessions take over when they begin outlives a failover in
// them: they are made anew.
func TestAConsumerGoesOnAfterItsServerWasReadOnly(t *testing.T) {
	t.Parallel()
	admin := processes(t, 1)[0]
	name := ownDatabase(t)
	s := processesAt(t, databaseAt(t, name), 1)[0]
	admins := func(ctx context.Context, query string) error {
		_, err := admin.DB().ExecContext(ctx, query)
		return err
	}
	var once sync.Once
	consumeAll(t, s, func(ctx context.Context, _ *sql.Tx, _ *settle.Event) (err error) {
		once.Do(func() {
			err = errors.Join(
				admins(ctx, `ALTER DATABASE `+name+` SET default_transaction_read_only = on`),
				admins(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '`+name+`'`),
			)
			time.AfterFunc(300*time.Millisecond, func() {
				if err := admins(context.WithoutCancel(ctx), `ALTER DATABASE `+name+` RESET default_transaction_read_only`); err != nil {
					t.Error(err)
				}
			})
		})
		return err
	}).nobodysFault(t, s)
}

func TestAConsumerGoesOnWhenTheServerHasConnectionsAgain(t *testing.T) {
	t.Parallel()
	at := postgres.DatabaseForTest(t)
	admin := processesAt(t, at, 1)[0]
	role := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	schema := admin.Service()
	admins := func(query string) error {
		_, err := admin.DB().Exec(query)
		return err
	}
	err := errors.Join(
		admins(`CREATE ROLE `+role+` LOGIN PASSWORD '`+role+`'`), admins(`GRANT ALL ON SCHEMA `+schema+` TO `+role),
		admins(`GRANT ALL ON ALL TABLES IN SCHEMA `+schema+` TO `+role), admins(`GRANT ALL ON ALL SEQUENCES IN SCHEMA `+schema+` TO `+role),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(admins(`DROP OWNED BY `+role), admins(`DROP ROLE `+role)); err != nil {
			t.Error(err)
		}
	})
	s := postgres.OpenForTest(t, as(t, at, role), postgres.Config{MaxConns: 8})
	var once sync.Once
	consumeAll(t, s, func(context.Context, *sql.Tx, *settle.Event) (err error) {
		once.Do(func() {
			err = errors.Join(
				admins(`ALTER ROLE `+role+` CONNECTION LIMIT 0`),
				admins(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '`+role+`'`),
			)
			time.AfterFunc(300*time.Millisecond, func() {
				if err := admins(`ALTER ROLE ` + role + ` CONNECTION LIMIT -1`); err != nil {
					t.Error(err)
				}
			})
		})
		return err
	}).nobodysFault(t, s)
}

func TestAConsumerGoesOnAfterItsServerWasKilled(t *testing.T) {
	srv := killable(t)
	s := processesAt(t, srv.URL(""), 1)[0]
	var once sync.Once
	consumeAll(t, s, func(context.Context, *sql.Tx, *settle.Event) error {
		once.Do(func() {
			srv.Kill()
			time.AfterFunc(300*time.Millisecond, func() { srv.Start() })
		})
		return nil
	}).nobodysFault(t, s)
}
