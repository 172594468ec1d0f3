package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/store/mysql"
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
func consumeAll(t *testing.T, s *mysql.Store, handle func(ctx context.Context, tx *sql.Tx, e *settle.Event) error) run {
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
func (r run) nobodysFault(t *testing.T, s *mysql.Store) {
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

// raise is an error with a number of the server's, as a statement meets it.
func raise(number int) string {
	return fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'planted'", number)
}

// What our own database can't do is no event's fault, whichever statement finds it.
func TestWhatTheServerCanNotDoCostsNoEventAnAttempt(t *testing.T) {
	names := map[int]string{1213: "deadlock", 1205: "lock time-out", 1047: "node not in sync", 1021: "disk full", 2013: "a proxy's server lost"}
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		maps.Copy(names, map[int]string{
			1020: "changed meanwhile", 1053: "shutdown", 1317: "query killed", 1114: "table full", 1041: "out of memory", 1040: "too many connections",
			1226: "user's limit", 1129: "host blocked", 1030: "disk error", 1290: "read-only",
		})
	}
	for number, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := processes(t, 1)[0]
			var left atomic.Int32
			left.Store(5)
			consumeAll(t, s, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				if e.AggregateSeq != 2 || left.Add(-1) < 0 {
					return nil
				}
				_, err := tx.ExecContext(ctx, raise(number))
				return fmt.Errorf("handle: %w", err)
			}).nobodysFault(t, s)
		})
	}
}

// The same, found by the store's own statements: the consume log can't be written.
func TestAFullDiskPausesDeliveryUntilThereIsRoom(t *testing.T) {
	s := processes(t, 1, `CREATE TRIGGER full_disk BEFORE INSERT ON t_message_consume_log FOR EACH ROW `+raise(1021))[0]
	room := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		_, err := s.DB().Exec(`DROP TRIGGER full_disk`)
		room <- err
	})
	r := consumeAll(t, s, func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	if err := <-room; err != nil {
		t.Fatal(err)
	}
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
		"a statement that is wrong": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (nothing) VALUES (1)`)
			return err
		}, "nothing"},
		"a statement that outlasts the handler's time": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT SLEEP(10)`)
			return err
		}, "handler exceeded its timeout"},
		"a statement that would commit": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `ALTER TABLE t_effect ADD COLUMN more INT`)
			return err
		}, "must not end the transaction"},
		"a result that it leaves open": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, `SELECT 1 UNION SELECT 2`)
			return err
		}, "has not closed what it read"},
		"another server that is away": {func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the carrier: %w", errAway{})
		}, "ask the carrier"},
		"another database that is full": {func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the archive: %w", &driver.MySQLError{Number: 1114})
		}, "ask the archive"},
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

// What another transaction holds for longer than a lock is waited for is tried
// again until it lets go.
func TestALockThatOthersHoldForLongCostsNoAttempt(t *testing.T) {
	t.Parallel()
	at := mysql.DatabaseForTest(t)
	s := mysql.OpenForTest(t, at, mysql.Config{LockTimeout: time.Second})
	for _, q := range []string{dialect().CreateEffects(), `CREATE TABLE t_stock (sku INT PRIMARY KEY, n INT NOT NULL)`, `INSERT INTO t_stock VALUES (1, 0)`} {
		if _, err := s.DB().Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	other, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	if _, err := other.Exec(`UPDATE t_stock SET n = n WHERE sku = 1`); err != nil {
		t.Fatal(err)
	}
	var waits atomic.Int32
	var once sync.Once
	consumeAll(t, s, func(ctx context.Context, tx *sql.Tx, _ *settle.Event) error {
		_, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = 1`)
		if err != nil && waits.Add(1) >= 2 {
			once.Do(func() { _ = other.Rollback() })
		}
		return err
	}).nobodysFault(t, s)
	var n int
	if err := s.DB().QueryRow(`SELECT n FROM t_stock`).Scan(&n); err != nil || n != 9 || waits.Load() < 2 {
		t.Errorf("the row was counted up %d times, %v; there were %d time-outs", n, err, waits.Load())
	}
}

func TestAConsumerGoesOnWhenTheServerHasConnectionsAgain(t *testing.T) {
	t.Parallel()
	at := mysql.DatabaseForTest(t)
	admin := processesAt(t, at, 1)[0]
	user := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")[10:26]
	admins := func(query string) error {
		_, err := admin.DB().Exec(query)
		return err
	}
	if err := errors.Join(admins(`CREATE USER `+user+`@'%' IDENTIFIED BY 'pw'`), admins(`GRANT ALL ON `+admin.Service()+`.* TO `+user+`@'%'`)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admins(`DROP USER ` + user + `@'%'`); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "pw")
	s := mysql.OpenForTest(t, u.String(), mysql.Config{MaxConns: 8})
	limit := func(n int) error {
		return admins(fmt.Sprintf(`ALTER USER %s@'%%' WITH MAX_USER_CONNECTIONS %d`, user, n))
	}
	var once sync.Once
	consumeAll(t, s, func(context.Context, *sql.Tx, *settle.Event) (err error) {
		once.Do(func() {
			err = errors.Join(limit(1), killAll(admin, user))
			time.AfterFunc(300*time.Millisecond, func() {
				if err := limit(0); err != nil {
					t.Error(err)
				}
			})
		})
		return err
	}).nobodysFault(t, s)
}

// killAll ends all connections of a user.
func killAll(admin *mysql.Store, user string) error {
	rows, err := admin.DB().Query(`SELECT id FROM information_schema.processlist WHERE user = ?`, user)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		_, _ = admin.DB().Exec(fmt.Sprintf("KILL %d", id)) // unless it has ended
	}
	return rows.Err()
}

// The server is read only for those who may not do all, while connections to it
// stay open, and is killed then.
func TestAConsumerGoesOnAfterItsServerWasReadOnlyAndAfterItWasKilled(t *testing.T) {
	t.Parallel()
	own := myserver.Own(t)
	s := processesAt(t, own.Database("consume"), 1)[0]
	var once, then sync.Once
	consumeAll(t, s, func(_ context.Context, _ *sql.Tx, e *settle.Event) error {
		once.Do(func() {
			own.Exec("SET GLOBAL read_only = ON")
			time.AfterFunc(300*time.Millisecond, func() { own.Exec("SET GLOBAL read_only = OFF") })
		})
		if e.AggregateSeq == 3 {
			then.Do(func() {
				own.Kill()
				time.AfterFunc(300*time.Millisecond, own.Start)
			})
		}
		return nil
	}).nobodysFault(t, s)
}
