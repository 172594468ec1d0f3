package postgres

import (
	"cmp"
	"errors"
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

// oldRows are so old that their partition may go, and not so old that they are
// deleted one by one.
const (
	oldRows = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, topic, payload, appended_at)
SELECT 'e' || i, 'x', 'k' || i, $3::text, '{}', now() - interval '2 hours' FROM generate_series($1::bigint, $2::bigint) i`
	keepFor = 90 * time.Minute
)

// retiring is an outbox in partitions of ten ids, ids 1 to 60, all read.
type retiring struct {
	*testing.T
	at    string
	s     *Store
	l     *Log
	lease relay.Lease
	now   time.Time
}

func newRetiring(t *testing.T, f relay.Flush) *retiring {
	t.Helper()
	r := &retiring{T: t, at: DatabaseForTest(t) + "&synchronous_commit=off", now: time.Now()}
	PartitionForTest(t, r.at, 10)
	r.s = OpenForTest(t, r.at, Config{Clock: func() time.Time { return r.now }})
	if _, err := r.s.own.Exec(t.Context(), oldRows, 1, 60, "t"); err != nil {
		t.Fatal(err)
	}
	r.l = r.s.Log()
	r.lease = leadTest(t, r.l)
	f.Checkpoint.Number = 1
	if f.Checkpoint.Readers == nil {
		f.Checkpoint.Readers = []relay.Reader{{Cursor: 60}}
	}
	if err := r.l.Commit(t.Context(), r.lease, f); err != nil {
		t.Fatal(err)
	}
	return r
}

// retain tries again when something of the server was in the way for a moment,
// as its vacuum may be.
func (r *retiring) retain(limit int) (n int) {
	r.Helper()
	for range 100 {
		if n = r.once(limit); !r.l.isPutOff(r.now) {
			break
		}
		r.l.putOff(time.Time{})
	}
	return n
}

func (r *retiring) once(limit int) int {
	r.Helper()
	n, err := r.l.Retain(r.Context(), r.lease, r.now.Add(-keepFor), limit)
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// where tells which rows are in which partition.
func (r *retiring) where() string {
	r.Helper()
	rows, err := r.s.own.Query(r.Context(), `SELECT split_part(tableoid::regclass::text, 't_outbox_event_', 2) || ':' || string_agg(id::text, ' ' ORDER BY id) FROM t_outbox_event GROUP BY tableoid ORDER BY min(id)`)
	if err != nil {
		r.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.Fatal(err)
	}
	return strings.Join(all, ", ")
}

func (r *retiring) want(where string) {
	r.Helper()
	if got := r.where(); !strings.HasPrefix(got, where) {
		r.Errorf("rows are in\n%s\nwant\n%s", got, where)
	}
}

func park(id int64) relay.Park {
	return relay.Park{ID: id, EventID: fmt.Sprint("e", id), EventType: "x", Key: fmt.Sprint("k", id), Destination: "t", Attempts: 1, Class: settle.ClassPublish}
}

func TestAPartitionGoesAndWhatMayNotGoIsTakenOver(t *testing.T) {
	r := newRetiring(t, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: 60, Open: []int64{15}}}}, // in flight
		Park:       []relay.Park{park(12)},
		Delay:      []relay.Delay{{ID: 13, EventID: "e13", Key: "k13", Destination: "t", Due: time.Now().Add(time.Hour)}},
		Cold:       []int64{16}, // its row came late, and no sweep has found it
	})
	plant(t, r.s, `INSERT INTO t_outbox_extra (id, reason, added_at) VALUES (14, 'late', now()); UPDATE t_outbox_event SET appended_at = now() WHERE id = 17`)
	if n := r.retain(1); n != 4 {
		t.Errorf("%d rows went with the first partition, want 4", n)
	}
	r.want("until_20:1 2 3 4 5 6 7 8 9 12 13 14 15 16 17, from_20:20")
	if n := r.retain(20); n != 20 {
		t.Errorf("%d rows went with the next two, want 20", n)
	}
	r.want("until_40:1 2 3 4 5 6 7 8 9 12 13 14 15 16 17, from_40:40")
	// What is taken over is read as before.
	if p, err := r.l.Side(t.Context(), relay.SideQuery{Side: relay.SideParked, Destination: "t", Key: "k12", MaxRows: 5, MaxBytes: 100}); err != nil || len(p.Rows) != 1 || p.Rows[0].Gone {
		t.Errorf("the parked row is %+v, %v", p, err)
	}
	if p := pollTest(t, r.l, relay.PollQuery{After: 60, Holes: []int64{15}}); len(p.Rows) != 1 || p.Rows[0].ID != 15 {
		t.Errorf("what is in flight is read as %+v", p.Rows)
	}
	if n, err := r.l.Sweep(t.Context(), r.lease, 10); err != nil || n != 1 {
		t.Errorf("the sweep finds %d, %v; want 16", n, err)
	}
	// What is twice as old as it must be goes one by one, wherever it stands.
	r.now = r.now.Add(2 * time.Hour)
	r.retain(100)
	if got := r.where(); got != "until_60:12 13 14 15 16 17" {
		t.Errorf("then rows are in %s", got)
	}
}

func TestAPartitionStaysWhileAReaderIsBehindOrARowIsYoung(t *testing.T) {
	slow := newRetiring(t, relay.Flush{Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: 60}, {Destination: "slow", Cursor: 18}}}})
	young := newRetiring(t, relay.Flush{})
	plant(t, young.s, `UPDATE t_outbox_event SET appended_at = now() WHERE id = 19`)
	given := newRetiring(t, relay.Flush{})
	plant(t, given.s, `SELECT setval(pg_get_serial_sequence('t_outbox_event', 'id'), 18)`)
	for what, r := range map[string]*retiring{"a reader is behind": slow, "its last row is young": young, "the sequence is in it": given} {
		if n := r.retain(1); n != 0 {
			t.Errorf("%d rows went although %s", n, what)
		}
		r.want("until_10:1 2 3 4 5 6 7 8 9, from_10:10 11")
	}
}

func TestALateRowOfAPartitionThatHasGoneIsSent(t *testing.T) {
	r := newRetiring(t, relay.Flush{Cold: []int64{17}})
	plant(t, r.s, `DELETE FROM t_outbox_event WHERE id = 17`)
	r.retain(1)
	r.want("until_20:1 2 3 4 5 6 7 8 9, from_20:20")
	plant(t, r.s, `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (17, 'late', 'x', 'k', '{}')`)
	if n, err := r.l.Sweep(t.Context(), r.lease, 10); err != nil || n != 1 {
		t.Errorf("the sweep finds %d, %v", n, err)
	}
	r.retain(1)
	r.want("until_30:1 2 3 4 5 6 7 8 9 17, from_30:30")
}

// What is looked at a part at a time may change in between.
func TestARowThatComesWhileItsPartitionIsLookedAtStays(t *testing.T) {
	const width = lookedIDs * 2
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	PartitionForTest(t, at, width)
	s := OpenForTest(t, at, Config{})
	for _, q := range []string{"SELECT setval('t_outbox_event_id_seq', $1::bigint - 1), $2::text", strings.Replace(oldRows, "$3::text", "'t'", 1)} {
		args := []any{width, "t"}
		if strings.HasPrefix(q, "INSERT") {
			args = []any{width, 2 * width}
		}
		if _, err := s.own.Exec(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	l := s.Log()
	lease := leadTest(t, l)
	late := int64(width + 7)
	if _, err := s.own.Exec(t.Context(), "DELETE FROM t_outbox_event WHERE id = $1", late); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 2 * width}}}, Cold: []int64{late}}); err != nil {
		t.Fatal(err)
	}
	r := retiring{T: t, at: at, s: s, l: l, lease: lease, now: time.Now()}
	if n := r.retain(2000); n != lookedIDs-1 {
		t.Errorf("the first part has %d rows, want %d", n, lookedIDs-1)
	}
	if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES ($1, 'late', 'x', 'k', '{}')`, late); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r.retain(2000)
	}
	r.want(fmt.Sprintf("until_%d:%d, from_%[1]d:%[1]d", 2*width, late))
}

// A partition goes by the same rule as rows do one by one.
func TestRetentionDecidesTheSameOfAPartitionAsOfItsRows(t *testing.T) {
	r := newRetiring(t, relay.Flush{})
	seed := uint64(time.Now().UnixNano())
	for n := range int64(20) {
		seed++
		r.arrange(rand.New(rand.NewPCG(seed, 1)), n+2)
		var rows int
		var stay, left []int64
		before := r.now.Add(-keepFor)
		err := pgx.BeginFunc(t.Context(), r.s.own, func(tx pgx.Tx) error {
			if err := tx.QueryRow(t.Context(), fmt.Sprintf(stayingRows, "t_outbox_event_from_10"), before, 10, 20).Scan(&rows, nil, &stay); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), retainRows, before, 9, 19); err != nil {
				return err
			}
			var id int64
			err := each(t.Context(), tx, []any{&id}, func() { left = append(left, id) }, "SELECT id FROM t_outbox_event_from_10 ORDER BY id")
			return cmp.Or(err, errUndo)
		})
		slices.Sort(stay)
		if !errors.Is(err, errUndo) || rows != 10 || !slices.Equal(stay, left) {
			t.Errorf("seed %d: of %d rows %v stay, and one by one %v (%v)", seed, rows, stay, left, err)
		}
	}
}

// arrange puts some of the rows into every state that keeps one.
func (r *retiring) arrange(random *rand.Rand, number int64) {
	r.Helper()
	some := func(n int) (ids []int64) {
		for range random.IntN(n) {
			ids = append(ids, 5+int64(random.IntN(20)))
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	plant(r.T, r.s, `TRUNCATE t_outbox_parked, t_outbox_delayed, t_outbox_extra, t_outbox_gap; UPDATE t_outbox_event SET topic = 't', appended_at = now() - interval '2 hours'`)
	f := relay.Flush{Checkpoint: relay.Checkpoint{Number: number, Readers: []relay.Reader{
		{Cursor: 15 + int64(random.IntN(20)), Open: some(5)}, {Destination: "slow", Cursor: 10 + int64(random.IntN(20)), Open: some(5)},
	}}, Cold: some(5)}
	for _, id := range some(5) {
		f.Park = append(f.Park, park(id))
	}
	for _, id := range some(5) {
		f.Delay = append(f.Delay, relay.Delay{ID: id, EventID: fmt.Sprint("e", id), Destination: "t", Due: time.Now()})
	}
	if err := r.l.Commit(r.Context(), r.lease, f); err != nil {
		r.Fatal(err)
	}
	for query, ids := range map[string][]int64{
		`INSERT INTO t_outbox_extra (id, reason, added_at) SELECT id, 'late', now() FROM unnest($1::bigint[]) id`: some(5),
		`UPDATE t_outbox_event SET topic = 'slow' WHERE id = ANY($1)`:                                             some(15),
		`UPDATE t_outbox_event SET appended_at = now() WHERE id = ANY($1)`:                                        some(4),
	} {
		if _, err := r.s.own.Exec(r.Context(), query, ids); err != nil {
			r.Fatal(err)
		}
	}
}

var errUndo = errors.New("undo")

func TestAChangeOfPartitionsWaitsForNobodyAndIsMadeLater(t *testing.T) {
	r := newRetiring(t, relay.Flush{})
	x := begin(t, r.at)
	x.do(insertOf("open"))
	before := r.where()
	for i := range 3 {
		// What is found to go is told once, though it is still there.
		if n := r.once(1); n != []int{10, 0, 0}[i] || r.where() != before {
			t.Errorf("beside an open transaction %d rows are told to go; rows are in %s", n, r.where())
		}
	}
	if !r.l.isPutOff(r.now) {
		t.Error("it is tried at once again")
	}
	// What is twice as old as it must be goes all the same.
	r.now = r.now.Add(2 * time.Hour)
	if n := r.once(2); n != 2 {
		t.Errorf("%d rows went one by one, want 2", n)
	}
	r.now = r.now.Add(-2 * time.Hour)
	x.do("COMMIT")
	if n := r.once(1); n != 0 {
		t.Errorf("%d rows went before it was to be tried again", n)
	}
	r.now = r.now.Add(2*time.Hour + 2*firstPause)
	r.retain(1)
	if got := r.where(); !strings.HasPrefix(got, "until_20:3 4 5 6 7 8 9, ") && !strings.HasPrefix(got, "until_30:3 4 5 6 7 8 9, ") {
		t.Errorf("when nobody was in the way rows are in %s", got)
	}
}

// A reader whose state is older than the change would not see what the change has
// written anew. The relay's readers have it wait.
func TestARowThatIsTakenOverIsNotTakenForDeleted(t *testing.T) {
	for _, c := range []struct {
		first string
		seen  int
	}{{keepOutbox, 1}, {"SELECT 1", 0}} {
		r := newRetiring(t, relay.Flush{Park: []relay.Park{park(12)}})
		tx, err := r.s.business.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), c.first); err != nil {
			t.Fatal(err)
		}
		r.once(1)
		var seen int
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM t_outbox_parked p JOIN t_outbox_event e ON e.id = p.id").Scan(&seen); err != nil || seen != c.seen {
			t.Errorf("behind %q %d rows are seen, %v; want %d", c.first, seen, err, c.seen)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := newRetiring(t, relay.Flush{})
	err := r.s.snapshot(t.Context(), func(pgx.Tx) error {
		r.once(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.want("until_10:")
}

func TestWhoDoesNotLeadAnyMoreDropsNothing(t *testing.T) {
	r := newRetiring(t, relay.Flush{})
	plant(t, r.s, "UPDATE t_outbox_lease SET epoch = epoch + 1, owner = 'another'")
	before := r.where()
	if n, err := r.l.Retain(t.Context(), r.lease, r.now.Add(-keepFor), 1); !errors.Is(err, settle.ErrFenced) || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
	if got := r.where(); got != before {
		t.Errorf("rows are in\n%s\nwant\n%s", got, before)
	}
}

func TestARelayThatIsNotTheOwnerDeletesRowByRow(t *testing.T) {
	r := newRetiring(t, relay.Flush{})
	name, asRole := role(t, r.at, "")
	execute(t, r.at, fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA %s TO %s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s; GRANT ALL ON ALL SEQUENCES IN SCHEMA %[1]s TO %[2]s", schemaOf(t, r.at), name))
	if f := diagnose(t, asRole, DoctorConfig{})["partitions"]; f.Verdict != "warn" || !strings.Contains(f.Found, name+" is not the owner") {
		t.Errorf("doctor says %+v", f)
	}
	s := OpenForTest(t, asRole, Config{Existing: true})
	l := s.Log()
	l.hold(r.l.holding())
	if n, err := l.Retain(t.Context(), r.lease, r.now.Add(-keepFor), 12); err != nil || n != 12 {
		t.Errorf("%d rows went, %v; want 12", n, err)
	}
	r.want("from_10:13")
}

func TestEveryIDHasAPlaceWhoeverChoosesIt(t *testing.T) {
	r := newRetiring(t, relay.Flush{})
	if _, err := r.s.own.Exec(t.Context(), oldRows, 61, 350, "t"); err != nil { // ahead were some up to 90
		t.Fatal(err)
	}
	plant(t, r.s, `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (4000000000000, 'far', 'x', 'k', '{}'), (5, 'low', 'x', 'k', '{}') ON CONFLICT DO NOTHING`)
	if f := diagnose(t, r.at, DoctorConfig{})["partitions"]; f.Verdict != "warn" || !strings.Contains(f.Found, "0 ahead") {
		t.Errorf("without one ahead doctor says %+v", f)
	}
	r.retain(1)
	if f := diagnose(t, r.at, DoctorConfig{})["partitions"]; f.Verdict != "ok" || !strings.Contains(f.Found, fmt.Sprint(partitionsAhead, " ahead")) {
		t.Errorf("then doctor says %+v", f)
	}
	if _, err := r.s.own.Exec(t.Context(), oldRows, 351, 365, "t"); err != nil {
		t.Fatal(err)
	}
	if got := r.where(); !strings.HasSuffix(got, " 359, from_360:360 361 362 363 364 365, beyond_440:4000000000000") {
		t.Errorf("rows are in\n%s", got)
	}
}
