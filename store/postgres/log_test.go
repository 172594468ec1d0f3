package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// txn is a transaction on a connection of its own.
type txn struct {
	*testing.T
	conn *pgx.Conn
}

func begin(t *testing.T, at string) *txn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	x := &txn{t, conn}
	x.do("BEGIN")
	return x
}

func (x *txn) do(query string) {
	x.Helper()
	if _, err := x.conn.Exec(x.Context(), query); err != nil {
		x.Fatalf("%s: %v", query, err)
	}
}

func insertOf(id string) string {
	return `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('` + id + `', 'order.created', 'k', '{}')`
}

func ownersOf(t *testing.T, l *Log, before relay.Evidence) relay.Evidence {
	t.Helper()
	e, err := l.Owners(t.Context(), before)
	if err != nil || !e.Known {
		t.Fatalf("%+v, %v", e, err)
	}
	return e
}

func wantEnded(t *testing.T, l *Log, token relay.Evidence, want bool, when string) {
	t.Helper()
	if got := ownersOf(t, l, token).Clear; got != want {
		t.Errorf("%s: owners have ended is %v, want %v (token %q)", when, got, want, token.Token)
	}
}

func TestATransactionThatInsertsOwnsMissingIDsUntilItEnds(t *testing.T) {
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	for end, open := range map[string]string{"ROLLBACK": insertOf("a"), "COMMIT": insertOf("b"), "ROLLBACK TO s": "SAVEPOINT s; " + insertOf("c")} {
		x := begin(t, at)
		x.do(open)
		token := ownersOf(t, l, relay.Evidence{})
		wantEnded(t, l, token, false, "open, before "+end)
		later := begin(t, at)
		later.do(insertOf("later"))
		x.do(end)
		wantEnded(t, l, token, true, "after "+end+", with another that began since")
		later.do("ROLLBACK")
	}
}

func TestAPreparedTransactionStaysAnOwner(t *testing.T) {
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	name := strings.ReplaceAll(settle.NewID(), "-", "")
	for i, c := range []struct{ before, after string }{
		{insertOf("a"), ""},
		// It holds the lock and has no number yet: what is prepared can't be told
		// from it by name.
		{"LOCK TABLE t_outbox_event IN ROW EXCLUSIVE MODE", insertOf("b")},
	} {
		gid := fmt.Sprint("test", i, name)
		x := begin(t, at)
		x.do(c.before)
		token := ownersOf(t, l, relay.Evidence{})
		wantEnded(t, l, token, false, "before it is prepared")
		if c.after != "" {
			x.do(c.after)
		}
		x.do("PREPARE TRANSACTION '" + gid + "'")
		wantEnded(t, l, token, false, "prepared")
		later := begin(t, at)
		later.do(insertOf("later"))
		later.do("PREPARE TRANSACTION '" + gid + "later'")
		x.do("COMMIT PREPARED '" + gid + "'")
		wantEnded(t, l, token, true, "after it was committed, with another one prepared since")
		later.do("ROLLBACK PREPARED '" + gid + "later'")
	}
}

func TestWhoDoesNotInsertOwnsNothing(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	if _, err := s.own.Exec(t.Context(), insertOf("a")); err != nil {
		t.Fatal(err)
	}
	elsewhere := DatabaseForTest(t)
	OpenForTest(t, elsewhere, Config{})
	for at, does := range map[string]string{elsewhere: insertOf("x")} {
		begin(t, at).do(does)
	}
	for _, does := range []string{"SELECT * FROM t_outbox_event FOR UPDATE", "LOCK TABLE t_outbox_event IN SHARE UPDATE EXCLUSIVE MODE", "CREATE TABLE t_other (x int)"} {
		begin(t, at).do(does)
		token := ownersOf(t, s.Log(), relay.Evidence{})
		wantEnded(t, s.Log(), token, true, does)
	}
}

func leadTest(t *testing.T, l *Log) relay.Lease {
	t.Helper()
	lease, err := l.Lead(t.Context(), "me", 0, time.Hour)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	return lease
}

func gapsOf(t *testing.T, s *Store) string {
	t.Helper()
	var all []string
	var first, last int64
	err := s.snapshot(t.Context(), func(tx pgx.Tx) error {
		return each(t.Context(), tx, []any{&first, &last}, func() { all = append(all, fmt.Sprint(first, "-", last)) }, "SELECT first_id, last_id FROM t_outbox_gap ORDER BY first_id")
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestColdIDsAreKeptAsRunsAndALateOneIsTakenOut(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	lease := leadTest(t, l)
	cold := []int64{20, 5, 6, 7, 8, 9, 100, 101}
	if err := l.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 101}}}, Cold: cold}); err != nil {
		t.Fatal(err)
	}
	if got := gapsOf(t, s); got != "5-9 20-20 100-101" {
		t.Fatalf("gaps are %s", got)
	}
	for _, id := range []int64{7, 20, 100, 101} {
		if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES ($1, 'e' || $1::bigint, 'x', 'k', '{}')`, id); err != nil {
			t.Fatal(err)
		}
	}
	// Bounded: one now, the others with the next.
	for _, want := range []int{1, 3, 0} {
		if n, err := l.Sweep(t.Context(), lease, max(1, want)); err != nil || n != want {
			t.Errorf("found %d (%v), want %d", n, err, want)
		}
	}
	if got := gapsOf(t, s); got != "5-6 8-9" {
		t.Errorf("gaps are %s", got)
	}
}

func TestGapsBelowWhatIsKeptMerge(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	lease := leadTest(t, l)
	for id := int64(1); id <= 30; id++ {
		if id%3 == 0 {
			continue
		}
		if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES ($1, 'e' || $1::bigint, 'x', 'k', '{}')`, id); err != nil {
			t.Fatal(err)
		}
	}
	// 27 is not cold yet: nothing around it may merge.
	readers := []relay.Reader{{Cursor: 30, Open: []int64{27}}}
	if err := l.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: readers}, Cold: []int64{3, 6, 9, 12, 15, 18, 21, 24}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Retain(t.Context(), lease, time.Now().Add(time.Hour), 10); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := s.own.QueryRow(t.Context(), "SELECT count(*) FROM t_outbox_event").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events are left (%v)", left, err)
	}
	if got := gapsOf(t, s); got != "3-12 15-15 18-18 21-21 24-24" {
		t.Errorf("gaps are %s", got)
	}
}

// What is committed without waiting for the disk can be read and be lost.
func TestWhatMayBeLostInACrashIsReadAsSuch(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	lease := leadTest(t, l)
	seen := false
	for i := range 50 {
		err := pgx.BeginFunc(t.Context(), s.own, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = off")
			if err == nil {
				_, err = tx.Exec(t.Context(), insertOf(fmt.Sprint("e", i)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		p := pollTest(t, l, relay.PollQuery{})
		if seen = seen || p.NotDurable; seen && !p.NotDurable {
			return
		}
		if seen {
			if err := l.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: int64(i + 1), Readers: []relay.Reader{{}}}}); err != nil {
				t.Fatal(err)
			}
			// Others write to the same WAL: it is level at some moment.
			for range 200 {
				if !pollTest(t, l, relay.PollQuery{}).NotDurable {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
			t.Fatal("behind a commit that waits for the disk it is still not durable")
		}
	}
	t.Error("fifty commits that do not wait for the disk are all durable at once")
}

func pollTest(t *testing.T, l *Log, q relay.PollQuery) relay.Page {
	t.Helper()
	if q.MaxRows == 0 {
		q.MaxRows = 1000
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = 1 << 20
	}
	p, err := l.Poll(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPageOfLargeEventsIsCutByTheServer(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload)
SELECT 'e' || i, 'x', 'k', convert_to(repeat('x', 900000), 'UTF8') FROM generate_series(1, 20) i`); err != nil {
		t.Fatal(err)
	}
	rows, err := s.own.Query(t.Context(), pollWeighed, 0, 1000, 501, 0, []int64{}, []int64{}, []int64{}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil || n > 4 {
		t.Errorf("%d rows came over the wire for a page of 1 MiB (%v)", n, err)
	}
	// Behind small pages it is read as it comes, and no larger page is made of it.
	l := s.Log()
	l.read(1, true)
	for i, weighed := range []bool{false, true} {
		if _, small := l.lastPage(); small == weighed {
			t.Errorf("poll %d weighs its rows is %v, want %v", i, !weighed, weighed)
		}
		if p := pollTest(t, l, relay.PollQuery{MaxBytes: 2 << 20}); len(p.Rows) != 2 || p.Complete {
			t.Errorf("poll %d: %d rows, complete %v; want the 2 that fit", i, len(p.Rows), p.Complete)
		}
	}
	// A first row that is larger than the page comes alone, and says so.
	if p := pollTest(t, s.Log(), relay.PollQuery{MaxBytes: 1000}); len(p.Rows) != 1 || p.Complete {
		t.Errorf("%d rows, complete %v", len(p.Rows), p.Complete)
	}
}

func TestMissingIDsAreFoundWhetherAloneOrInRuns(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	r := rand.New(rand.NewPCG(1, 2))
	for id := int64(1); id <= 300; id++ {
		if r.IntN(3) > 0 {
			continue
		}
		if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES ($1, 'e' || $1::bigint, 'x', 'k', '{}')`, id); err != nil {
			t.Fatal(err)
		}
	}
	all := pollTest(t, s.Log(), relay.PollQuery{}).Rows
	for range 30 {
		var holes, want, got []int64
		for id := int64(1); id <= 300; {
			for n := r.IntN(12); n > 0 && id <= 300; n-- {
				holes = append(holes, id)
				id++
			}
			id += int64(1 + r.IntN(5))
		}
		q := relay.PollQuery{After: int64(100 + r.IntN(250)), Holes: holes, MaxRows: 1 + r.IntN(150)}
		for _, row := range all {
			_, hole := slices.BinarySearch(holes, row.ID)
			if (row.ID > q.After || hole) && len(want) < q.MaxRows {
				want = append(want, row.ID)
			}
		}
		for _, row := range pollTest(t, s.Log(), q).Rows {
			got = append(got, row.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v gives %v, want %v", q, got, want)
		}
	}
}

func TestABulkInsertThatIsOpenIsOneLook(t *testing.T) {
	ids := []int64{3, 5, 6, 7}
	for id := int64(100); id < 50_100; id++ {
		ids = append(ids, id)
	}
	single, first, last := splitHoles(append(ids, 60_000))
	if !slices.Equal(single, []int64{3, 5, 6, 7, 60_000}) || !slices.Equal(first, []int64{100}) || !slices.Equal(last, []int64{50_099}) {
		t.Errorf("alone %v, runs %v to %v", single, first, last)
	}
}

func TestAnyProgramMayInsertWithPlainSQL(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	before := time.Now().Add(-time.Minute)
	if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e1', 'order.created', 'o-1', convert_to('{"n":1.10}', 'UTF8'))`); err != nil {
		t.Fatal(err)
	}
	r := pollTest(t, s.Log(), relay.PollQuery{}).Rows[0]
	e := r.Event
	if string(e.Payload) != `{"n":1.10}` || e.BizKey != "o-1" || e.Topic != settle.DefaultTopic || e.Version != 1 || e.ContentType != settle.ContentTypeJSON || r.Defect != "" {
		t.Errorf("row is %+v, event %+v", r, e)
	}
	if !e.OccurredAt.Equal(e.AppendedAt) || e.AppendedAt.Before(before) {
		t.Errorf("occurred %v, appended %v", e.OccurredAt, e.AppendedAt)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

func TestARowThatCanNotBecomeAnEventSaysWhyAndKeepsItsPlace(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	for i, values := range []string{`'', NULL, NULL`, `'k', '[1]', NULL`, `'k', '{"a":1}', NULL`, `'k', NULL, 'infinity'`, `'k', NULL, '12000-01-01'`, `'k', NULL, NULL`} {
		if _, err := s.own.Exec(t.Context(), fmt.Sprintf(`INSERT INTO t_outbox_event (event_id, event_type, payload, aggregate_id, headers, not_before) VALUES ('e%d', 'x', '{}', %s)`, i, values)); err != nil {
			t.Fatal(err)
		}
	}
	rows := pollTest(t, s.Log(), relay.PollQuery{}).Rows
	for i, r := range rows {
		if good := i == 5; (r.Defect == "") != good || r.Event == nil || r.Event.ID == "" {
			t.Errorf("row %d: defect %q, event %+v", i, r.Defect, r.Event)
		}
	}
	if len(rows) != 6 || !slices.IsSortedFunc(rows, func(a, b relay.Row) int { return int(a.ID - b.ID) }) {
		t.Errorf("%d rows", len(rows))
	}
}

func TestTheDatabasesClockDecidesWhoLeads(t *testing.T) {
	at := DatabaseForTest(t)
	first, second := OpenForTest(t, at, Config{}).Log(), OpenForTest(t, at, Config{}).Log()
	const ttl = 2 * time.Second
	lease, err := first.Lead(t.Context(), "first", 0, ttl)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	if l, err := second.Lead(t.Context(), "second", 0, ttl); err != nil || l.Held {
		t.Errorf("the standby leads: %+v, %v", l, err)
	}
	for until := time.Now().Add(10 * time.Second); ; {
		l, err := second.Lead(t.Context(), "second", 0, ttl)
		if err != nil {
			t.Fatal(err)
		}
		if l.Held {
			if l.Epoch != lease.Epoch+1 || time.Now().Before(lease.Expires) {
				t.Errorf("%+v, while the lease runs until %v", l, lease.Expires)
			}
			return
		}
		if time.Now().After(until) {
			t.Fatal("the standby never leads")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestALeaseFromBeforeAClockWasSetBackIsCut(t *testing.T) {
	at := DatabaseForTest(t)
	now := time.Now()
	clock := func() time.Time { return now }
	first, second := OpenForTest(t, at, Config{Clock: clock}).Log(), OpenForTest(t, at, Config{Clock: clock}).Log()
	if l, err := first.Lead(t.Context(), "first", 0, time.Second); err != nil || !l.Held {
		t.Fatalf("%+v, %v", l, err)
	}
	now = now.Add(-24 * time.Hour)
	if l, err := second.Lead(t.Context(), "second", 0, time.Second); err != nil || l.Held {
		t.Fatalf("%+v, %v", l, err)
	}
	now = now.Add(1100 * time.Millisecond)
	if l, err := second.Lead(t.Context(), "second", 0, time.Second); err != nil || !l.Held {
		t.Errorf("a lease time later the lease is still held: %+v, %v", l, err)
	}
}
