package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// roleWith makes a role with a setting and a schema of its own, and returns the
// URL by which it gets there.
func roleWith(t *testing.T, setting string) string {
	t.Helper()
	at := postgres.DatabaseForTest(t)
	admin := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	role := "role_" + strings.ReplaceAll(settle.NewID(), "-", "")
	exec := func(query string) error {
		_, err := admin.DB().Exec(query)
		return err
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	schema := u.Query().Get("search_path")
	err = errors.Join(exec(`CREATE ROLE `+role+` LOGIN PASSWORD '`+role+`'`), exec(`ALTER ROLE `+role+` SET `+setting), exec(`CREATE SCHEMA `+schema+` AUTHORIZATION `+role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(exec(`DROP OWNED BY `+role+` CASCADE`), exec(`DROP ROLE `+role)); err != nil {
			t.Error(err)
		}
	})
	return as(t, at, role)
}

func TestARoleWhoseTransactionsAreSerializableBreaksNeitherRelayNorConsumer(t *testing.T) {
	t.Parallel()
	at := roleWith(t, `default_transaction_isolation = 'serializable'`)
	stores := processesAt(t, at, 2)
	var level string
	if err := stores[0].DB().QueryRow(`SHOW transaction_isolation`).Scan(&level); err != nil || level != "serializable" {
		t.Fatalf("the business works in %s, %v: the test proves nothing", level, err)
	}
	wrong, sent := concurrent.Carry(t, []relay.Store{stores[0].Log(), stores[1].Log()}, 20*time.Second, nil, func() map[string]int64 {
		// Serializable writers fail each other: one at a time says what is to be sent.
		return concurrent.Write(t, written(stores[0]), concurrent.Load{Writers: 1, Keys: 20, During: time.Second, Plain: true})
	})
	for _, w := range wrong {
		t.Error(w)
	}
	if sent == 0 {
		t.Error("nothing was written")
	}
	concurrent.DeliverToAll(t, opened(stores...))
}

// The leader's writes wait for a takeover and then see it: they are refused,
// not failed.
func TestALeaderThatWaitedForItsSuccessorIsFencedWhateverTheRolesIsolation(t *testing.T) {
	t.Parallel()
	stores := processesAt(t, roleWith(t, `default_transaction_isolation = 'repeatable read'`), 2)
	old := stores[0].Log()
	lease, err := old.Lead(t.Context(), "x", 0, time.Minute)
	if err != nil || !lease.Held {
		t.Fatal(lease, err)
	}
	tx, err := stores[1].Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE t_outbox_lease SET owner = 'y', epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- old.Commit(t.Context(), lease, relay.Flush{}) }()
	for waiting := 0; waiting == 0; {
		if err := stores[1].DB().QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, settle.ErrFenced) {
		t.Errorf("the write of the old leader gives %v, want %v", err, settle.ErrFenced)
	}
}

func TestTheReaderBehindAPoolerCanNotWriteAndReads(t *testing.T) {
	s := postgres.OpenForTest(t, pooler(t, ownDatabase(t)), postgres.Config{MaxConns: 2})
	if !postgres.Pooled(s) {
		t.Fatal("the pooler is not noticed")
	}
	db, ctx := s.Reader(), t.Context()
	statement, err := db.PrepareContext(ctx, `DELETE FROM t_outbox_event WHERE event_id = $1`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = statement.Close() }()
	for name, write := range map[string]func() error{
		"exec":     func() error { _, err := db.ExecContext(ctx, `DELETE FROM t_outbox_event`); return err },
		"query":    func() error { return db.QueryRowContext(ctx, `DELETE FROM t_outbox_event RETURNING 1`).Err() },
		"prepared": func() error { _, err := statement.ExecContext(ctx, "x"); return err },
		"transaction": func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM t_outbox_event`)
			return errors.Join(err, tx.Rollback())
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "25006") {
			t.Errorf("%s: says %v, want that it can't write", name, err)
		}
	}
	for n := range 20 { // more than it has connections, so none is kept
		rows, err := db.QueryContext(ctx, `SELECT generate_series(1, $1)`, 3)
		if err != nil {
			t.Fatal(err)
		}
		rows.Next() // and left in the middle
		if err := rows.Close(); err != nil {
			t.Fatal(n, err)
		}
		var one int
		if err := db.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil || one != 1 {
			t.Fatal(n, one, err)
		}
		if res, err := db.ExecContext(ctx, `SELECT 1`); err != nil {
			t.Fatal(n, res, err)
		}
	}
	if _, err := s.DB().ExecContext(ctx, `DELETE FROM t_outbox_event`); err != nil {
		t.Errorf("the business can't write: %v", err)
	}
}

// A migration while connections are warm: what they have prepared has other
// columns now.
func TestATableThatChangesUnderWarmConnectionsFailsNoEventAndNoOutbox(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *postgres.Store{
		"directly":         func(t *testing.T) *postgres.Store { return processes(t, 1)[0] },
		"through a pooler": func(t *testing.T) *postgres.Store { return processesAt(t, pooler(t, ownDatabase(t)), 1)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if _, err := s.DB().Exec(`CREATE TABLE t_price (sku text, price integer)`); err != nil {
				t.Fatal(err)
			}
			if _, err := s.DB().Exec(`INSERT INTO t_price VALUES ('x', 1)`); err != nil {
				t.Fatal(err)
			}
			read := func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, `SELECT * FROM t_price`)
				if err != nil {
					return err
				}
				for rows.Next() {
				}
				return errors.Join(rows.Err(), rows.Close())
			}
			r := concurrent.ConsumeAll(t, process(s, ""), func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				return read(ctx, tx)
			})
			r.NobodysFault(t, process(s, ""))
			for n := range 3 {
				for _, query := range []string{
					fmt.Sprintf(`ALTER TABLE t_price ADD COLUMN c%d text`, n),
					fmt.Sprintf(`ALTER TABLE t_consume_retry ADD COLUMN extra%d text`, n),
					fmt.Sprintf(`ALTER TABLE t_outbox_event ADD COLUMN extra%d text`, n),
				} {
					if _, err := s.DB().Exec(query); err != nil {
						t.Fatal(err)
					}
				}
				items := []settle.Item{concurrent.Item(fmt.Sprint("k", n), 1)}
				results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "h", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error { return read(ctx, tx) })
				if err != nil || results[0].Verdict != settle.VerdictApplied {
					t.Fatal(results, err)
				}
				if _, err := s.Log().Poll(t.Context(), relay.PollQuery{MaxRows: 10, MaxBytes: 1 << 20}); err != nil {
					t.Errorf("poll: %v", err)
				}
			}
		})
	}
}
