package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

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
	statements := map[string]string{}
	for number, name := range names {
		statements[name] = raise(number)
	}
	concurrent.ServerFaults(t, own, statements)
}

// The same, found by the store's own statements: the consume log can't be written.
func TestAFullDiskPausesDeliveryUntilThereIsRoom(t *testing.T) {
	s := processes(t, 1, `CREATE TRIGGER full_disk BEFORE INSERT ON t_message_consume_log FOR EACH ROW `+raise(1021))[0]
	room := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		_, err := s.DB().Exec(`DROP TRIGGER full_disk`)
		room <- err
	})
	r := concurrent.ConsumeAll(t, process(s), func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	if err := <-room; err != nil {
		t.Fatal(err)
	}
	if down, up := r.Changes(); r.Stats.Failed != 0 || down != 1 || up != 1 {
		t.Errorf("%d attempts failed; the store went down %d times and up %d times", r.Stats.Failed, down, up)
	}
}

// What a handler does to its own transaction is an attempt, and the cause says
// what it was.
func TestWhatAHandlerDoesToItsTransactionIsAnAttempt(t *testing.T) {
	concurrent.HandlerFaults(t, own, map[string]concurrent.HandlerFault{
		"a statement that is wrong": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (nothing) VALUES (1)`)
			return err
		}, Cause: "nothing"},
		"a statement that outlasts the handler's time": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT SLEEP(10)`)
			return err
		}, Cause: "handler exceeded its timeout"},
		"a statement that would commit": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `ALTER TABLE t_effect ADD COLUMN more INT`)
			return err
		}, Cause: "must not end the transaction"},
		"a result that it leaves open": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, `SELECT 1 UNION SELECT 2`)
			return err
		}, Cause: "has not closed what it read"},
		"another server that is away": {Do: func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the carrier: %w", errAway{})
		}, Cause: "ask the carrier"},
		"another database that is full": {Do: func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the archive: %w", &driver.MySQLError{Number: 1114})
		}, Cause: "ask the archive"},
	})
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
	concurrent.ConsumeAll(t, process(s), func(ctx context.Context, tx *sql.Tx, _ *settle.Event) error {
		_, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = 1`)
		if err != nil && waits.Add(1) >= 2 {
			once.Do(func() { _ = other.Rollback() })
		}
		return err
	}).NobodysFault(t, process(s))
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
	concurrent.ConsumeAll(t, process(s), func(context.Context, *sql.Tx, *settle.Event) (err error) {
		once.Do(func() {
			err = errors.Join(limit(1), killAll(admin, user))
			time.AfterFunc(300*time.Millisecond, func() {
				if err := limit(0); err != nil {
					t.Error(err)
				}
			})
		})
		return err
	}).NobodysFault(t, process(s))
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
	concurrent.ConsumeAll(t, process(s), func(_ context.Context, _ *sql.Tx, e *settle.Event) error {
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
	}).NobodysFault(t, process(s))
}
