package mysql

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// ledTest is an outbox with rows under ids 1 to n, and its leader.
type ledTest struct {
	*testing.T
	s      *Store
	l      *Log
	lease  relay.Lease
	number int64
}

func led(t *testing.T, ids ...int64) *ledTest {
	t.Helper()
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	o := &ledTest{T: t, s: s, l: s.Log()}
	o.lease = leadTest(t, o.l)
	o.insert(ids...)
	return o
}

func (o *ledTest) insert(ids ...int64) {
	o.Helper()
	for _, id := range ids {
		if _, err := o.s.db.ExecContext(o.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, topic, payload, appended_at) VALUES (?, ?, 'a', 'k', 't', '{}', ?)`,
			id, fmt.Sprint("e", id), time.Now().Add(-time.Hour).UTC()); err != nil {
			o.Fatal(err)
		}
	}
}

func (o *ledTest) commit(f relay.Flush, cursor int64, open ...int64) {
	o.Helper()
	o.number++
	f.Checkpoint = relay.Checkpoint{Number: o.number, Readers: []relay.Reader{{Cursor: cursor, Open: open}}}
	if err := o.l.Commit(o.Context(), o.lease, f); err != nil {
		o.Fatal(err)
	}
}

func (o *ledTest) retain(limit int) int {
	o.Helper()
	n, err := o.l.Retain(o.Context(), o.lease, time.Now(), limit)
	if err != nil {
		o.Fatal(err)
	}
	return n
}

func (o *ledTest) ids(query string) string {
	o.Helper()
	var all []string
	var id sql.NullString
	if err := each(o.Context(), o.s.reader, []any{&id}, func() { all = append(all, id.String) }, query); err != nil {
		o.Fatal(err)
	}
	return strings.Join(all, " ")
}

func (o *ledTest) want(query, want string) {
	o.Helper()
	if got := o.ids(query); got != want {
		o.Errorf("%s gives %q, want %q", query, got, want)
	}
}

const (
	rowsLeft    = "SELECT id FROM t_outbox_event ORDER BY id"
	gapsLeft    = "SELECT CONCAT(first_id, '-', last_id) FROM t_outbox_gap ORDER BY first_id"
	lateOnes    = "SELECT id FROM t_outbox_extra ORDER BY id"
	checkpoints = "SELECT number FROM t_outbox_checkpoint ORDER BY number"
)

// A transaction that is open for longer than rows are kept commits rows that
// are old at once.
func TestARowThatCameLateIsNotDeletedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	o := led(t, 1, 2, 6, 7)
	o.commit(relay.Flush{Cold: []int64{3, 4, 5}}, 7)
	o.insert(4)
	if n := o.retain(100); n != 4 {
		t.Errorf("%d rows are deleted, want 4", n)
	}
	o.want(rowsLeft, "4")
	if n, err := o.l.Sweep(t.Context(), o.lease, 10); err != nil || n != 1 {
		t.Errorf("%d rows are found late, %v", n, err)
	}
	o.want(lateOnes, "4")
	o.want(gapsLeft, "3-3 5-5")
	o.retain(100)
	o.want(rowsLeft, "4")
	o.commit(relay.Flush{Sent: []relay.Sent{{ID: 4, EventID: "e4", Destination: "t", From: relay.FromExtra, SentAt: time.Now()}}}, 7)
	o.retain(100)
	o.want(rowsLeft, "")
}

func TestASweepFindsRowsInRunsOfEachLengthAndTearsThem(t *testing.T) {
	t.Parallel()
	o := led(t)
	var cold []int64
	for id := int64(1); id <= 100; id++ {
		if id%10 != 0 || id > 50 {
			cold = append(cold, id)
		}
	}
	o.commit(relay.Flush{Cold: cold}, 100)
	o.insert(1, 9, 55, 100)
	for i, want := range []int{2, 2, 0} {
		if n, err := o.l.Sweep(t.Context(), o.lease, 2); err != nil || n != want {
			t.Errorf("sweep %d finds %d, %v; want %d", i, n, err, want)
		}
	}
	o.want(lateOnes, "1 9 55 100")
	o.want(gapsLeft, "2-8 11-19 21-29 31-39 41-49 51-54 56-99")
}

func TestGapsBetweenRowsThatWereDeletedMergeAndCheckpointsGoWithTheirRows(t *testing.T) {
	t.Parallel()
	o := led(t, 1, 3, 5, 7, 20, 30)
	sent := func(ids ...int64) (f relay.Flush) {
		for _, id := range ids {
			f.Sent = append(f.Sent, relay.Sent{ID: id, EventID: fmt.Sprint("e", id), Destination: "t", SentAt: time.Now()})
		}
		return f
	}
	o.commit(relay.Flush{Cold: []int64{2, 4, 6, 8}}, 8)
	o.commit(sent(1, 3), 3)
	o.commit(sent(5, 7), 7)
	o.commit(relay.Flush{}, 7)
	o.commit(sent(30), 30, 20)
	o.commit(relay.Flush{}, 30, 20)
	if n := o.retain(4); n != 4 {
		t.Errorf("%d rows are deleted, want 4", n)
	}
	o.want(gapsLeft, "2-6 8-8")
	o.want(checkpoints, "5 6")
	o.retain(4)
	o.want(rowsLeft, "20")
	o.retain(4)
	o.want(checkpoints, "6")
}

func TestWhatALoadFindsOpenIsMissingUntilItIsSeen(t *testing.T) {
	t.Parallel()
	o := led(t, 1, 3, 9)
	o.commit(relay.Flush{}, 6, 2, 3, 5)
	if _, err := o.l.Load(t.Context(), o.lease); err != nil {
		t.Fatal(err)
	}
	missing := func(want string) {
		t.Helper()
		if got := fmt.Sprint(o.l.missing.Runs()); got != want {
			t.Errorf("missing are %s, want %s", got, want)
		}
	}
	missing("[[2 3] [5 5]]")
	if _, err := o.l.Poll(t.Context(), relay.PollQuery{After: 6, Holes: []int64{2, 3, 5}, MaxRows: 10, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	missing("[[2 2] [5 5] [7 8]]")
	o.commit(relay.Flush{Cold: []int64{2, 7}}, 9, 5, 8)
	missing("[[5 5] [8 8]]")
	// A reader that follows passes what was cold before.
	if _, err := o.l.Poll(t.Context(), relay.PollQuery{After: 1, UpTo: 9, MaxRows: 10, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	missing("[[5 5] [8 8]]")
}

func TestBehindAPageOfLargeRowsTheNextAsksForFewer(t *testing.T) {
	t.Parallel()
	o := led(t)
	for i := range 8 {
		if _, err := o.s.db.ExecContext(t.Context(), insertOf(fmt.Sprint("e", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.s.db.ExecContext(t.Context(), "UPDATE t_outbox_event SET payload = REPEAT('x', 1000)"); err != nil {
		t.Fatal(err)
	}
	cursor, pages := int64(0), []int{}
	for range 10 {
		p, err := o.l.Poll(t.Context(), relay.PollQuery{After: cursor, MaxRows: 100, MaxBytes: 2500})
		if err != nil {
			t.Fatal(err)
		}
		if !p.Complete && o.l.width > 4 {
			t.Errorf("behind a page of two rows %d are asked for", o.l.width)
		}
		if pages = append(pages, len(p.Rows)); p.Complete {
			break
		}
		cursor = p.Rows[len(p.Rows)-1].ID
	}
	if got := fmt.Sprint(pages); got != "[2 2 2 2]" {
		t.Errorf("pages have %s rows, want two each", got)
	}
}

// The times that the relay waits for are found to the microsecond.
func TestADelayedRowIsDueAtItsTime(t *testing.T) {
	t.Parallel()
	o := led(t, 1)
	due := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC)
	o.commit(relay.Flush{Delay: []relay.Delay{{ID: 1, EventID: "e1", Destination: "t", Key: "k", Due: due}}}, 1)
	for at, want := range map[time.Time]int{due: 1, due.Add(-time.Microsecond): 0} {
		p, err := o.l.Side(t.Context(), relay.SideQuery{Side: relay.SideDelayed, Now: at, MaxRows: 10, MaxBytes: 1 << 20})
		if err != nil || len(p.Rows) != want || want == 0 && !p.Next.Equal(due.Truncate(time.Microsecond)) {
			t.Errorf("at %v: %+v, %v; want %d rows", at, p, err, want)
		}
	}
}

func TestTextsOfBrokersAreStoredWhateverTheyHold(t *testing.T) {
	t.Parallel()
	o := led(t, 1)
	o.commit(relay.Flush{Park: []relay.Park{{ID: 1, EventID: "e1", EventType: "a", Key: "k", Destination: "t", Attempts: 1, Class: settle.ClassPublish, Cause: "bad \xff and \x00 '\\"}}}, 1)
	o.want("SELECT cause FROM t_outbox_parked", "bad \uFFFD and \uFFFD '\\")
}
