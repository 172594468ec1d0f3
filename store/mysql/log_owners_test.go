package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// patience bounds waits for what comes soon, also on a busy machine.
const patience = 30 * time.Second

// askEvery is as often as a test asks.
const askEvery = 120 * time.Millisecond

// txn is a transaction in a session of its own, in which a lock is waited for
// for a second only.
type txn struct {
	*testing.T
	conn *sql.Conn
}

func begin(t *testing.T, at string) *txn {
	t.Helper()
	cfg, err := parseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pool(cfg, map[string]string{"innodb_lock_wait_timeout": "1"}, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = db.Close()
	})
	x := &txn{t, conn}
	x.do("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	x.do("BEGIN")
	return x
}

func (x *txn) do(query string) {
	x.Helper()
	if _, err := x.conn.ExecContext(context.WithoutCancel(x.Context()), query); err != nil {
		x.Fatalf("%s: %v", query, err)
	}
}

func insertOf(id string) string {
	return `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('` + id + `', 'order.created', 'k', '{}')`
}

func pollAll(t *testing.T, l *Log) []relay.Row {
	t.Helper()
	p, err := l.Poll(t.Context(), relay.PollQuery{MaxRows: 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return p.Rows
}

func tokenOf(t *testing.T, l *Log) relay.Evidence {
	t.Helper()
	e, err := l.Owners(t.Context(), relay.Evidence{})
	if err != nil || !e.Known {
		t.Fatalf("%+v, %v", e, err)
	}
	return e
}

// wantOwned asks a few times, and whoever owns something must own it each time.
func wantOwned(t *testing.T, l *Log, token relay.Evidence, when string) {
	t.Helper()
	for range 4 {
		e, err := l.Owners(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if e.Clear {
			t.Errorf("%s: owners have ended (token %s)", when, token.Token)
		}
		time.Sleep(askEvery)
	}
}

func wantEnded(t *testing.T, l *Log, token relay.Evidence, when string) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(askEvery) {
		e, err := l.Owners(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if e.Clear {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: owners never end (token %s)", when, token.Token)
		}
	}
}

func TestATransactionThatInsertsOwnsMissingIDsUntilItEnds(t *testing.T) {
	t.Parallel()
	for end, open := range map[string][]string{"ROLLBACK": {insertOf("a")}, "COMMIT": {insertOf("b")}, "ROLLBACK TO s": {"SAVEPOINT s", insertOf("c")}} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			at := DatabaseForTest(t)
			l := OpenForTest(t, at, Config{}).Log()
			x, y := begin(t, at), begin(t, at)
			for _, q := range open {
				x.do(q)
			}
			y.do(insertOf("visible"))
			y.do("COMMIT")
			if rows := pollAll(t, l); len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			token := tokenOf(t, l)
			wantOwned(t, l, token, "before "+end)
			later := begin(t, at)
			later.do(insertOf("later"))
			x.do(end)
			wantEnded(t, l, token, "after "+end+", with another that began since")
			later.do("ROLLBACK")
		})
	}
}

func TestAPreparedTransactionStaysAnOwner(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	name := "'" + settle.NewID() + "'"
	x, y := begin(t, at), begin(t, at)
	x.do("COMMIT")
	x.do("XA START " + name)
	x.do(insertOf("a"))
	x.do("XA END " + name)
	x.do("XA PREPARE " + name)
	y.do(insertOf("visible"))
	y.do("COMMIT")
	pollAll(t, l)
	token := tokenOf(t, l)
	wantOwned(t, l, token, "prepared")
	x.do("XA COMMIT " + name)
	wantEnded(t, l, token, "after it was committed")
}

// A statement is given the ids of all its rows at first, and inserts one after
// the other.
func TestAStatementOwnsTheIDsThatItHasNotUsedYet(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	x, y := begin(t, at), begin(t, at)
	x.do(insertOf("taken"))
	y.do("SET innodb_lock_wait_timeout = 20")
	ended := make(chan error, 1)
	go func() { // waits for x with its second row, and has not come to the third
		_, err := y.conn.ExecContext(context.WithoutCancel(t.Context()), insertOf("first")+`, ('taken', 't', 'k', ''), ('third', 't', 'k', '')`)
		ended <- err
	}()
	waits := func() (n int) {
		if err := l.s.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%taken%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for until := time.Now().Add(patience); waits() == 0; time.Sleep(askEvery) {
		if time.Now().After(until) {
			t.Fatal("the statement does not wait")
		}
	}
	l.missing.Add(4, 4)
	token := tokenOf(t, l)
	if locked, err := l.locked(t.Context(), []outboxlog.Run{{4, 4}}); err != nil || locked {
		t.Fatalf("the record of an id that is not used yet is locked: %v, %v; the test proves nothing", locked, err)
	}
	wantOwned(t, l, token, "while the statement runs")
	x.do("COMMIT")
	if err := <-ended; !hasCode(err, codeDuplicate) {
		t.Fatalf("the statement ends with %v", err)
	}
	wantEnded(t, l, token, "after the statement, in a transaction that is open")
}

func TestWhoDoesNotInsertOwnsNothing(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	l := s.Log()
	gone := begin(t, at)
	gone.do(insertOf("gone"))
	gone.do("ROLLBACK")
	writes, reads := begin(t, at), begin(t, at)
	writes.do(insertOf("visible"))
	writes.do("COMMIT")
	writes.do("BEGIN")
	writes.do("INSERT INTO settle_skip VALUES ('x', 'me', UTC_TIMESTAMP(6), NULL)")
	reads.do("SELECT count(*) FROM t_outbox_event")
	pollAll(t, l)
	wantEnded(t, l, tokenOf(t, l), "with transactions open that do something else")
}

func TestAProbeWaitsForNobodyAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	l := s.Log()
	inFlight, other := begin(t, at), begin(t, at)
	inFlight.do(insertOf("in flight")) // id 1
	other.do(insertOf("undone"))       // id 2
	other.do("ROLLBACK")
	other.do("BEGIN")
	other.do(insertOf("visible")) // id 3
	other.do("COMMIT")
	for name, ids := range map[string][]outboxlog.Run{"one": {{1, 1}}, "a run": {{1, 2000}}} {
		before := lockWaits(t, s)
		if locked, err := l.locked(t.Context(), ids); err != nil || !locked {
			t.Errorf("%s: the record of an open transaction is locked: %v, %v", name, locked, err)
		}
		if n := lockWaits(t, s) - before; n > 0 {
			t.Logf("%s: %d waits for locks on the server meanwhile", name, n)
		}
	}
	for name, ids := range map[string][]outboxlog.Run{"some": {{2, 3}}, "a run": {{2, 2000}}} {
		if locked, err := l.locked(t.Context(), ids); err != nil || locked {
			t.Errorf("%s: records that nobody holds are locked: %v, %v", name, locked, err)
		}
	}
	other.do("BEGIN")
	other.do("SELECT id FROM t_outbox_event WHERE id = 3 FOR UPDATE NOWAIT")
	other.do(strings.Replace(strings.Replace(insertOf("fills"), "(event_id", "(id, event_id", 1), "('fills'", "(2, 'fills'", 1))
	other.do("COMMIT")
	inFlight.do("COMMIT")
	if rows := pollAll(t, l); len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
}

func lockWaits(t *testing.T, s *Store) (n int) {
	t.Helper()
	var name string
	if err := s.reader.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWhatOthersHaveAskedForIsNoEvidence(t *testing.T) {
	t.Parallel()
	l := OpenForTest(t, DatabaseForTest(t), Config{}).Log()
	for range 50 {
		if _, _, err := l.writing(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		_, known, err := l.writing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(asked) < 50*time.Millisecond {
			if known {
				t.Error("transactions of some time ago are taken for those that run")
			}
			return
		}
	}
	t.Error("the server is too slow to say anything")
}

func TestALongReadHoldsNoEvidenceUp(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	x := begin(t, at)
	token := tokenOf(t, l)
	var id int64
	if err := x.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- x.conn.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT count(*) + SLEEP(600) FROM t_outbox_event").Scan(new(int))
	}()
	wantEnded(t, l, token, "while somebody reads")
	execForTest(t, at, fmt.Sprint("KILL ", id))
	<-ended
}

// Without the right to see other sessions time decides, but for records that
// are locked.
func TestWhoMayNotSeeStatementsStillSeesLockedRecords(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	OpenForTest(t, at, Config{})
	l := OpenForTest(t, withoutProcess(t, at), Config{}).Log()
	x, y := begin(t, at), begin(t, at)
	x.do(insertOf("a"))
	y.do(insertOf("visible"))
	y.do("COMMIT")
	pollAll(t, l)
	token, err := l.Owners(t.Context(), relay.Evidence{})
	if err != nil || !token.Known {
		t.Fatalf("%+v, %v", token, err)
	}
	if e, err := l.Owners(t.Context(), token); err != nil || !e.Known || e.Clear {
		t.Errorf("while the transaction is open: %+v, %v; want it known that it is", e, err)
	}
	x.do("ROLLBACK")
	if e, err := l.Owners(t.Context(), token); err != nil || e.Known || e.Clear {
		t.Errorf("after its end: %+v, %v; want nothing known", e, err)
	}
}

// withoutProcess is the URL for a user who has all rights on the database, and
// no other.
func withoutProcess(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := "u" + strings.ReplaceAll(settle.NewID(), "-", "")[:20]
	user := "'" + name + "'@'" + "127.0.0.1'"
	execForTest(t, at, "CREATE USER "+user+" IDENTIFIED BY 'Secret-"+name+"'")
	t.Cleanup(func() { execForTest(t, at, "DROP USER "+user) })
	execForTest(t, at, "GRANT ALL ON `"+u.Path[1:]+"`.* TO "+user)
	u.User = url.UserPassword(name, "Secret-"+name)
	return u.String()
}
