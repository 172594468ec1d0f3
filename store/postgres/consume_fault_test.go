package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func raise(state string) string {
	return `DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '` + state + `'; END $$`
}

// What our own database can't do is no event's fault, whichever statement finds it.
func TestWhatTheServerCanNotDoCostsNoEventAnAttempt(t *testing.T) {
	statements := map[string]string{}
	for state, name := range map[string]string{
		"40001": "serialization failure", "40P01": "deadlock", "55P03": "lock time-out", "57P01": "shutdown", "57P03": "starting up",
		"53100": "disk full", "53200": "out of memory", "53300": "too many connections", "58030": "disk error", "25006": "read-only",
	} {
		statements[name] = raise(state)
	}
	concurrent.ServerFaults(t, own, statements)
}

// The same, found by the store's own statements: the consume log can't be written.
func TestAFullDiskPausesDeliveryUntilThereIsRoom(t *testing.T) {
	s := processes(t, 1, `CREATE TABLE t_room (tries bigint)`, `CREATE SEQUENCE tries`,
		`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		  IF nextval('tries') < 12 THEN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON t_message_consume_log FOR EACH ROW EXECUTE FUNCTION full_disk()`)[0]
	r := concurrent.ConsumeAll(t, process(s, ""), func(context.Context, *sql.Tx, *settle.Event) error { return nil })
	if down, up := r.Changes(); r.Stats.Failed != 0 || down != 1 || up != 1 {
		t.Errorf("%d attempts failed; the store went down %d times and up %d times", r.Stats.Failed, down, up)
	}
}

// What a handler does to its own transaction is an attempt, and the cause says
// what it was.
func TestWhatAHandlerDoesToItsTransactionIsAnAttempt(t *testing.T) {
	concurrent.HandlerFaults(t, own, map[string]concurrent.HandlerFault{
		"a statement that takes too long": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SET LOCAL statement_timeout = 20; SELECT pg_sleep(10)`)
			return err
		}, Cause: "statement timeout"},
		"a statement that outlasts the handler's time": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SELECT pg_sleep(10)`)
			return err
		}, Cause: "handler exceeded its timeout"},
		"silence": {Do: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 20`); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond) // what it waits for is another system
			return nil
		}, Cause: "said nothing to the database"},
		"an error that it overlooks": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, `SELECT 1 / 0`)
			return nil
		}, Cause: "overlooked an error"},
		"another isolation": {Do: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`)
			return err
		}, Cause: "SET TRANSACTION ISOLATION LEVEL must be called before any query"},
		"another server that is away": {Do: func(context.Context, *sql.Tx) error {
			return fmt.Errorf("ask the carrier: %w", errAway{})
		}, Cause: "ask the carrier"},
	})
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
	concurrent.ConsumeAll(t, process(s, ""), func(ctx context.Context, _ *sql.Tx, _ *settle.Event) (err error) {
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
	}).NobodysFault(t, process(s, ""))
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
	concurrent.ConsumeAll(t, process(s, ""), func(context.Context, *sql.Tx, *settle.Event) (err error) {
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
	}).NobodysFault(t, process(s, ""))
}

func TestAConsumerGoesOnAfterItsServerWasKilled(t *testing.T) {
	srv := killable(t)
	s := processesAt(t, srv.URL(""), 1)[0]
	var once sync.Once
	concurrent.ConsumeAll(t, process(s, ""), func(context.Context, *sql.Tx, *settle.Event) error {
		once.Do(func() {
			srv.Kill()
			time.AfterFunc(300*time.Millisecond, func() { srv.Start() })
		})
		return nil
	}).NobodysFault(t, process(s, ""))
}
