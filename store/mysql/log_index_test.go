package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// numbers counts to 20,000 in both servers' SQL.
const numbers = `(SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 1 AS i FROM
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) a,
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) b,
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) c,
 (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) d,
 (SELECT 0 n UNION SELECT 1) e) number`

// fill makes the tables of the outbox so long that reading them whole shows in
// a plan. Every second id is missing.
func fill(t *testing.T, s *Store) {
	t.Helper()
	for _, q := range []string{
		`INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) SELECT 2 * i, CONCAT('e', i), 'order.created', CONCAT('k', i % 500), REPEAT('x', 256) FROM ` + numbers,
		`INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, first_id, last_id, sent, created_at)
 SELECT 0, 1, i, '[{"cursor":20000,"open":[[5,5],[7,9]]}]', i, i, '[["t",0,1,0,[0]]]', UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, attempts, class, cause, parked_at)
 SELECT 't', CONCAT('k', i % 500), i, CONCAT('e', i), 'x', 0, 'c', '', UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO t_outbox_delayed (id, event_id, destination, aggregate_id, due_at) SELECT i, CONCAT('e', i), 't', 'k', UTC_TIMESTAMP(6) + INTERVAL i SECOND FROM ` + numbers,
		`INSERT INTO t_outbox_extra (id, message_id, reason, added_at) SELECT i, '', 'late', UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO t_outbox_gap SELECT 3 * i + 100000, 3 * i + 100001, UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO t_dead_letter (service_side, consumer_group, event_id, class, reason, attempts, state, opened_at, due_at, outbox_id)
 SELECT 'relay', '', CONCAT('e', i), 'c', '', 1, 'OPEN', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), i FROM ` + numbers,
		`INSERT INTO settle_skip (event_id, created_by, created_at) SELECT CONCAT('other', i), 'me', UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) SELECT 'relay', i, 1, 'me', UTC_TIMESTAMP(6) FROM ` + numbers,
	} {
		if _, err := s.own.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
	}
	if err := each(t.Context(), s.own, []any{new(any), new(any), new(any), new(any)}, func() {},
		`ANALYZE TABLE t_outbox_event, t_outbox_checkpoint, t_outbox_parked, t_outbox_delayed, t_outbox_extra, t_outbox_gap, t_dead_letter, settle_renewal, settle_skip`); err != nil {
		t.Fatal(err)
	}
}

// step is a table of a plan.
type step struct{ table, access, extra string }

// planOf returns the plan of a query. It is that of the values, as it is in use.
func planOf(t *testing.T, s *Store, query string, args ...any) []step {
	t.Helper()
	rows, err := s.own.QueryContext(t.Context(), "EXPLAIN FORMAT=TRADITIONAL "+query, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	for rows.Next() {
		into := make([]any, len(names))
		for i := range into {
			into[i] = &stringColumn{}
			if names[i] == "id" || names[i] == "rows" || names[i] == "filtered" {
				into[i] = new(any)
			}
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		at := func(name string) string { return into[slices.Index(names, name)].(*stringColumn).string }
		if at("select_type") != "INSERT" { // MySQL shows the table that is written to as one that is read
			steps = append(steps, step{at("table"), at("type"), at("Extra")})
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// readsWhole returns the steps that read a table from end to end, lists, the
// version of the controls and the few lanes left out.
func readsWhole(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		short := strings.HasPrefix(s.table, "<") || s.table == "t_outbox_lane" || s.table == "t_outbox_division" || strings.Contains(s.extra, "Table function") || s.table == "v" || s.table == ""
		return short || s.access != "ALL" && s.access != "index"
	})
}

// oddIDs are missing ones.
func oddIDs(n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(2*i + 1)
	}
	return ids
}

// Every poll and every commit runs these; what they cost may not depend on how
// long the tables are.
func TestNoQueryOfTheRelayReadsAWholeLog(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fill(t, s)
	now := time.Now().UTC()
	ranges := fmt.Sprintf(findRanges, "e.id", between([]outboxlog.Run{{30000, 30100}, {60000, 90000}}), "")
	for name, q := range map[string]struct {
		query string
		args  []any
	}{
		"newest checkpoint":     {newestCheckpoint, []any{0}},
		"event at a cursor":     {eventAt, []any{7}},
		"ids by list":           {fmt.Sprintf(findSingle, "e.id", ""), []any{idList(oddIDs(1000)), 10}},
		"ids by range":          {ranges, []any{10}},
		"probe of ids":          {probeSingle, []any{idList(oddIDs(1000))}},
		"probe of ranges":       {fmt.Sprintf(probeRanges, between([]outboxlog.Run{{30000, 30100}, {60000, 90000}})), nil},
		"parked rows":           {sideParked, []any{"t", "k7", 10}},
		"delayed rows":          {fmt.Sprintf(sideDelayed, ""), []any{now, 10}},
		"late rows":             {fmt.Sprintf(sideExtra, " AND coalesce(e.topic, '') NOT IN (?)"), []any{0, "x", 10}},
		"next delayed row":      {fmt.Sprintf(nextDelayed, ""), []any{now}},
		"sent parked rows":      {fmt.Sprintf(dropParkedRows, "?,?", "(?,?),(?,?)"), []any{7, 9, 7, "t", 9, "t"}},
		"sent delayed rows":     {fmt.Sprintf(dropDelayed, "?,?"), []any{7, 9}},
		"sent late rows":        {fmt.Sprintf(dropExtra, "?,?"), []any{7, 9}},
		"end of a replay":       {fmt.Sprintf(endReplays, "?,?", "(?,?),(?,?)"), []any{now, "e7", "e9", "e7", "", "e9", ""}},
		"attempt":               {setAttempt, []any{1, now, "c", "", false, 0, 7, "t"}},
		"dead":                  {setDead, []any{1, "c", "", 7, "t"}},
		"dead letter":           {openRelayLetter, []any{"c", "", 1, true, now, now, 7, "t"}},
		"discard by skip":       {discardLetter, []any{now, "e7", "e7", ""}},
		"window of rows":        {retainWindow, []any{now, 0, 100}},
		"rows that are held":    {fmt.Sprintf(heldRows, "?,?"), []any{7, 9, 7, 9, 7, 9}},
		"gaps of rows":          {gapsWithin, []any{120000, 120100}},
		"rows to delete":        {fmt.Sprintf(deleteRows, "?,?"), []any{7, 9, now}},
		"gaps to merge":         {gapsBetween, []any{120000, 120100}},
		"rows between":          {rowsBetween, []any{100, 200}},
		"gaps to drop":          {dropBetween, []any{120000, 120100, 120100}},
		"passed checkpoints":    {passedCheckpoints, []any{1000, 100}},
		"empty checkpoints":     {emptyCheckpoints, []any{100}},
		"window of checkpoints": {pruneWindow, []any{0, 100}},
		"rows of a checkpoint":  {fmt.Sprintf(stillThere, 7, 30001, 30002), nil},
		"checkpoints to delete": {fmt.Sprintf(dropCheckpoints, "?,?"), []any{7, 9}},
		"window of gaps":        {gapWindow, []any{0, 100}},
		"gaps to tear":          {fmt.Sprintf(dropGaps, "?,?"), []any{100003, 100006}},
		"newest renewal":        {newestRenewal, []any{relayScope, "0", nil, 0}},
		"highest epoch":         {highestEpoch, []any{1, 0, relayScope, "0"}},
		"renewals to delete":    {oldRenewals, []any{relayScope, "0", 1, 100}},
		"backlog above":         {fmt.Sprintf(backlogAbove, "?"), []any{100, 100, 100}},
		"backlog that is due":   {backlogDue, []any{now, 100}},
		"status of an event":    {"SELECT status FROM v_outbox_event WHERE event_id = ?", []any{"e7"}},
		"status by key":         {"SELECT status FROM v_outbox_event WHERE aggregate_id = ?", []any{"k7"}},
		"who waits first":       {lockLetterKey, []any{"g", "k7"}},
		"where events are":      {sentQuery([]int64{7, 19_990, 30_000}), nil},
		"where an event is":     {"SELECT `offset` FROM v_outbox_sent WHERE id = ? AND first_id <= ? AND last_id >= ?", []any{19_990, 19_990, 19_990}},
	} {
		if whole := readsWhole(planOf(t, s, q.query, q.args...)); len(whole) > 0 {
			t.Errorf("%s: reads %+v whole\n%+v", name, whole, planOf(t, s, q.query, q.args...))
		}
	}
	if len(readsWhole(planOf(t, s, "SELECT * FROM t_outbox_event e WHERE e.topic = ?", "x"))) == 0 {
		t.Error("a query that reads the whole log is not noticed")
	}
}

// The page is read in the order of the primary key and stops at its end: a
// plan that sorts rows, or reads what is not asked for, would read all of a
// backlog. What may be sorted is ids.
func TestAPollReadsItsPageInOrder(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fill(t, s)
	l := s.Log()
	for _, holes := range []int{0, 100, 10_000} {
		ids := oddIDs(holes)
		if holes > 0 {
			for id := int64(50_000); id < 60_000; id++ { // a run
				ids = append(ids, id)
			}
		}
		query, args := l.pollQuery(relay.PollQuery{After: 30_000, Holes: outboxlog.Below(ids, 30_000)}, &outboxlog.Budget{Rows: 500})
		if holes > 0 {
			query, args = l.pollQuery(relay.PollQuery{After: 70_000, Holes: ids}, &outboxlog.Budget{Rows: 500})
		}
		plan := planOf(t, s, query, args...)
		if whole := readsWhole(plan); len(whole) > 0 {
			t.Errorf("with %d holes %+v are read whole\n%+v", holes, whole, plan)
		}
		for _, step := range plan {
			if step.table == "e" && strings.Contains(step.extra, "filesort") {
				t.Errorf("with %d holes rows are sorted: %+v", holes, plan)
			}
		}
	}
	if plan := planOf(t, s, "SELECT "+rowColumns+" FROM t_outbox_event e WHERE e.id > ? ORDER BY e.appended_at LIMIT 10", 7); !strings.Contains(fmt.Sprint(plan), "filesort") {
		t.Errorf("a plan that sorts rows is not noticed: %+v", plan)
	}
}
