package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
)

// load is what many writers do to one outbox. Each counts the events of a key
// in the row that it locks first, so the count that commits says what must
// arrive, and in which order.
type load struct {
	writers, keys int
	during        time.Duration
	// late writers append before they lock: the order contract is broken.
	late bool
}

const createKeys = `CREATE TABLE t_key (name VARCHAR(64) NOT NULL PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB`

func (l load) run(t *testing.T, s *mysql.Store) map[string]int64 {
	t.Helper()
	ctx := t.Context()
	queries := []string{createKeys, `CREATE TABLE t_source (n BIGINT NOT NULL PRIMARY KEY) ENGINE = InnoDB`, `INSERT INTO t_source VALUES (1), (2), (3), (4), (5)`}
	for k := range l.keys {
		queries = append(queries, fmt.Sprintf("INSERT INTO t_key VALUES ('key-%d', 0)", k))
	}
	for _, q := range queries {
		if _, err := s.DB().ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(l.during)
	var group sync.WaitGroup
	for w := range l.writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
				if err := l.write(ctx, s, r, fmt.Sprintf("%s-%d-%d", settle.NewID(), w, i)); err != nil && !rolledBack(err) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	for i, commits := range []bool{true, false, true} {
		group.Go(func() {
			if err := long(ctx, s, fmt.Sprint("long-", i), l.during*time.Duration(i+1)/4, commits); err != nil {
				t.Errorf("long transaction: %v", err)
			}
		})
	}
	group.Wait()
	return counted(t, s)
}

// rolledBack tells of a deadlock or of a lock that was not given in time: the
// transaction is undone, as by its writer.
func rolledBack(err error) bool {
	var e *driver.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}

func counted(t *testing.T, s *mysql.Store) map[string]int64 {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), "SELECT name, n FROM t_key WHERE n > 0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	want := map[string]int64{}
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		want[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return want
}

// count takes the next number of a key, and holds its row.
func count(ctx context.Context, tx *sql.Tx, key string) (n int64, err error) {
	if _, err := tx.ExecContext(ctx, "UPDATE t_key SET n = n + 1 WHERE name = ?", key); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT n FROM t_key WHERE name = ?", key).Scan(&n)
	return n, err
}

// fromSelect counts up by the rows of a table. The server gives such a statement
// more ids than it needs.
func fromSelect(ctx context.Context, tx *sql.Tx, key, name string, n int64) error {
	if _, err := tx.ExecContext(ctx, "UPDATE t_key SET n = n + 4 WHERE name = ?", key); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, aggregate_seq, payload)
SELECT CONCAT(?, '-', n), 'key.counted', ?, ? + n - 1, '{}' FROM t_source ORDER BY n`, name, key, n)
	return err
}

// write makes one transaction: three in ten are rolled back, one in ten inserts
// from a SELECT, some undo an event to a savepoint, some take their time.
func (l load) write(ctx context.Context, s *mysql.Store, r *rand.Rand, name string) error {
	key := fmt.Sprint("key-", r.IntN(l.keys))
	undo, selects := r.IntN(10) < 3, r.IntN(10) == 0 && !l.late
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	n := int64(0)
	if !l.late {
		if n, err = count(ctx, tx, key); err != nil {
			return err
		}
	}
	if r.IntN(4) == 0 {
		if err := undoneEvent(ctx, s, tx, key); err != nil {
			return err
		}
	}
	if selects {
		err = fromSelect(ctx, tx, key, name, n)
	} else {
		err = s.Append(ctx, tx, &settle.Event{ID: name, Type: "key.counted", AggregateID: key, AggregateSeq: n, Payload: []byte("{}")})
	}
	if err != nil {
		return err
	}
	if l.late {
		time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
		if n, err = count(ctx, tx, key); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE t_outbox_event SET aggregate_seq = ? WHERE event_id = ?", n, name); err != nil {
			return err
		}
	}
	if r.IntN(3) == 0 {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
	if undo {
		return tx.Rollback()
	}
	return tx.Commit()
}

func undoneEvent(ctx context.Context, s *mysql.Store, tx *sql.Tx, key string) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT before_it"); err != nil {
		return err
	}
	if err := s.Append(ctx, tx, &settle.Event{Type: "key.undone", AggregateID: key, AggregateSeq: 1, Payload: []byte("{}")}); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "ROLLBACK TO before_it")
	return err
}

// long holds a transaction open that was given its ids early.
func long(ctx context.Context, s *mysql.Store, key string, open time.Duration, commits bool) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO t_key VALUES (?, 3)", key); err != nil {
		return err
	}
	for n := range int64(3) {
		if err := s.Append(ctx, tx, &settle.Event{Type: "key.counted", AggregateID: key, AggregateSeq: n + 1, Payload: []byte("{}")}); err != nil {
			return err
		}
	}
	time.Sleep(open)
	if !commits {
		return tx.Rollback()
	}
	return tx.Commit()
}

// misplaced says what is wrong with a broker's log: of each key, the first
// copies must be 1, 2, 3 … up to what was committed.
func misplaced(log []settle.Record, want map[string]int64) (wrong []string) {
	seen, last := map[string]bool{}, map[string]int64{}
	for _, r := range log {
		e := r.Event
		if e == nil || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		switch {
		case e.Type != "key.counted":
			wrong = append(wrong, fmt.Sprintf("%s was undone and is there", e.ID))
		case e.AggregateSeq != last[e.AggregateID]+1:
			wrong = append(wrong, fmt.Sprintf("%s: %d behind %d", e.AggregateID, e.AggregateSeq, last[e.AggregateID]))
		}
		last[e.AggregateID] = max(last[e.AggregateID], e.AggregateSeq)
	}
	for key, n := range want {
		if last[key] != n {
			wrong = append(wrong, fmt.Sprintf("%s: came to %d of %d", key, last[key], n))
		}
	}
	for key := range last {
		if want[key] == 0 {
			wrong = append(wrong, key+" was never committed")
		}
	}
	return wrong
}

// carry runs a leader and a standby from s to a broker in memory while work
// runs, then until all that it wants has arrived and more says so too, or for
// patience.
func carry(t *testing.T, logs []relay.Store, patience time.Duration, more func() bool, work func() map[string]int64) (wrong []string, sent int) {
	t.Helper()
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, log := range logs {
		r := relay.New(log, b, relay.Config{Owner: fmt.Sprint("relay-", i), HoleAge: 200 * time.Millisecond, SweepEvery: time.Second, LeaseTTL: 3 * time.Second})
		group.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("relay: %v", err)
			}
		})
	}
	want := work()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		log := b.Log(settle.DefaultTopic)
		wrong, sent = misplaced(log, want), len(log)
		if len(wrong) == 0 && more() || time.Now().After(until) {
			break
		}
	}
	cancel()
	group.Wait()
	return wrong, sent
}

func enough() bool { return true }

func TestFirstCopiesOfEachKeyAreInOrderAndCompleteUnderManyWriters(t *testing.T) {
	at := mysql.DatabaseForTest(t)
	s, other := mysql.OpenForTest(t, at, mysql.Config{MaxConns: 24}), mysql.OpenForTest(t, at, mysql.Config{})
	wrong, sent := carry(t, []relay.Store{s.Log(), other.Log()}, 30*time.Second, func() bool { return gaps(t, s) > 0 }, func() map[string]int64 {
		return load{writers: 16, keys: 50, during: 4 * time.Second}.run(t, s)
	})
	for _, w := range wrong {
		t.Error(w)
	}
	if t.Logf("%d events", sent); sent < 100 {
		t.Error("too few to say anything")
	}
	if n := gaps(t, s); n == 0 {
		t.Error("no missing id was recorded as cold, with three in ten transactions rolled back")
	}
}

func gaps(t *testing.T, s *mysql.Store) (n int) {
	t.Helper()
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM t_outbox_gap").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// forgetful reads missing ids again with every other poll only, or never.
type forgetful struct {
	relay.Store
	every, polls int
}

func (f *forgetful) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	if f.polls++; f.every == 0 || f.polls%f.every != 0 {
		q.Holes = nil
	}
	return f.Store.Poll(ctx, q)
}

func TestALogThatLacksAnEventOrHasOneTooManyIsFoundOut(t *testing.T) {
	record := func(id, key string, seq int64) settle.Record {
		return settle.Record{Event: &settle.Event{ID: id, Type: "key.counted", AggregateID: key, AggregateSeq: seq}}
	}
	undone := record("u", "k", 3)
	undone.Event.Type = "key.undone"
	sound := []settle.Record{record("a", "k", 1), record("x", "other", 1), record("b", "k", 2), record("a", "k", 1)}
	want := map[string]int64{"k": 2, "other": 1}
	if wrong := misplaced(sound, want); len(wrong) > 0 {
		t.Errorf("a sound log, with a second copy: %q", wrong)
	}
	for name, log := range map[string][]settle.Record{"the last is missing": sound[:2], "the first is missing": sound[1:3], "undone": append(sound[:3:3], undone), "never committed": append(sound[:3:3], record("n", "none", 1))} {
		if len(misplaced(log, want)) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

func TestTheLogShowsARelayThatReadsMissingIDsLateOrWritersThatLockLate(t *testing.T) {
	for name, c := range map[string]struct {
		every int
		late  bool
		want  string
	}{
		"never":     {0, false, "behind"},
		"sometimes": {20, false, "behind"},
		"late":      {1, true, "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine one round may have seen too little.
			for range 3 {
				s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{MaxConns: 24})
				wrong, _ := carry(t, []relay.Store{&forgetful{Store: s.Log(), every: c.every}}, time.Second, enough, func() map[string]int64 {
					return load{writers: 16, keys: 8, during: 2 * time.Second, late: c.late}.run(t, s)
				})
				if strings.Contains(strings.Join(wrong, "\n"), c.want) {
					return
				}
			}
			t.Error("nothing of this kind is found")
		})
	}
}
