package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const fillOutbox = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload)
SELECT 'e' || i, 'order.created', 'k' || i % 500, convert_to(repeat('x', 256), 'UTF8') FROM generate_series(1, 20000) i`

// fill makes the tables of the outbox so long that reading them whole shows in
// a plan.
func fill(t *testing.T, s *Store) {
	t.Helper()
	for _, q := range []string{
		fillOutbox,
		`INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, first_id, last_id, sent, created_at)
 SELECT 0, 1, i, '[{"cursor":20000,"open":[5,[7,9]]}]', i, i, '{"t":[[0,1,0,[0]]]}', now() FROM generate_series(1, 20000) i`,
		`INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, attempts, class, cause, parked_at)
 SELECT 't', 'k' || i % 500, i, 'e' || i, 'x', 0, 'c', '', now() FROM generate_series(1, 20000) i`,
		`INSERT INTO t_outbox_delayed SELECT i, 'e' || i, 't', 'k', now() + i * interval '1 s' FROM generate_series(1, 20000) i`,
		`INSERT INTO t_outbox_extra SELECT i, '', 'late', now() FROM generate_series(1, 20000) i`,
		`INSERT INTO t_outbox_gap SELECT 3 * i, 3 * i + 1, now() FROM generate_series(100000, 120000) i`,
		`INSERT INTO t_dead_letter (service_side, consumer_group, event_id, class, reason, attempts, state, opened_at, due_at, outbox_id)
 SELECT 'relay', '', 'e' || i, 'c', '', 1, 'OPEN', now(), now(), i FROM generate_series(1, 20000) i`,
		`INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) SELECT 'relay', i::text, 1, 'me', now() FROM generate_series(1, 20000) i`,
		`ANALYZE t_outbox_event, t_outbox_checkpoint, t_outbox_parked, t_outbox_delayed, t_outbox_extra, t_outbox_gap, t_dead_letter, settle_renewal`,
	} {
		if _, err := s.own.Exec(t.Context(), q); err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
	}
}

// Every poll and every commit runs these; what they cost may not depend on how
// long the tables are.
func TestNoQueryOfTheRelayReadsAWholeLog(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fill(t, s)
	for name, query := range relayQueries() {
		for _, step := range planOf(t, s, query) {
			for _, table := range []string{"t_outbox_event", "t_outbox_checkpoint", "t_outbox_parked", "t_outbox_delayed", "t_outbox_extra", "t_outbox_gap", "t_dead_letter", "settle_renewal"} {
				if strings.Contains(step, "Seq Scan on "+table) {
					t.Errorf("%s: %s\n%s", name, step, strings.Join(planOf(t, s, query), "\n"))
				}
			}
		}
	}
	if got := planOf(t, s, "SELECT * FROM t_outbox_event e WHERE e.topic = $1"); !strings.Contains(strings.Join(got, " "), "Seq Scan on t_outbox_event") {
		t.Errorf("a query that reads the whole log is not noticed: %q", got)
	}
}

// relayQueries are what a relay asks, and people of single events.
func relayQueries() map[string]string {
	return map[string]string{
		"poll": poll, "poll without holes": pollWhole, "poll of large rows": pollWeighed, "newest checkpoint": newestCheckpoint, "event at a cursor": eventAt,
		"sent": dropParkedRow, "parked rows": sideParked, "delayed rows": sideDelayed, "late rows": sideExtra, "attempt": setAttempt,
		"dead": setDead, "dead letter": openRelayLetter, "end of a replay": endReplay, "discard by skip": discardLetter,
		"window of rows": retainWindow, "rows to delete": retainRows, "window of checkpoints": pruneWindow, "checkpoints to delete": pruneCheckpoints,
		"sweep": listLate, "runs to tear": tearRuns, "next delayed row": nextDelayed, "newest renewal": newestRenewal, "highest epoch": highestEpoch, "gaps to merge": mergeGaps,
		"poll of a lane": pollLane, "poll of large rows of a lane": pollLaneWeighed, "sweep of a lane": listLateOfLane, "late rows of a lane": sideExtraOfLane,
		"delayed rows of a lane": sideDelayedOfLane, "lanes that have ended": endedLanes, "rows that lanes hand over": undecidedRows, "lanes that read": laneStandings,
		"status of an event": "SELECT status FROM v_outbox_event WHERE event_id = $1",
		"status by key":      "SELECT status FROM v_outbox_event WHERE aggregate_id = $1",
		"where an event is":  `SELECT "offset" FROM v_outbox_sent WHERE id = $1 AND first_id <= $2 AND last_id >= $3`,
	}
}

// The page is read in the order of the primary key and stops at its end: a
// plan that sorts what is above the cursor would read all of a backlog.
func TestAPollReadsItsPageInOrder(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fill(t, s)
	for query, scans := range map[string]int{poll: 3, pollWeighed: 3, pollWhole: 1, pollLane: 3, pollLaneWeighed: 3} {
		wantInOrder(t, strings.Join(planOf(t, s, query), "\n"), scans)
	}
}

// wantInOrder wants so many scans: one above the cursor, and two of holes.
func wantInOrder(t *testing.T, plan string, scans int) {
	t.Helper()
	if n := strings.Count(plan, "Index Scan using t_outbox_event_pkey"); n != scans {
		t.Errorf("%d scans of the primary key, want %d:\n%s", n, scans, plan)
	}
	// What is found of runs of holes is sorted: it is little.
	above := plan[strings.LastIndex(plan, "Limit"):]
	if strings.Contains(above, "Sort") || !strings.Contains(above, "Index Cond: ((id > $") {
		t.Errorf("what is above the cursor is sorted:\n%s", plan)
	}
}

// planOf returns the plan that holds for any values.
func planOf(t *testing.T, s *Store, query string) []string {
	t.Helper()
	var steps []string
	err := pgx.BeginFunc(t.Context(), s.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			return err
		}
		params := 0
		for n := 1; strings.Contains(query, fmt.Sprint("$", n)); n++ {
			params = n
		}
		if _, err := tx.Exec(t.Context(), `PREPARE planned AS `+query, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		execute := `EXPLAIN EXECUTE planned`
		if params > 0 {
			execute += `(` + strings.TrimSuffix(strings.Repeat("NULL,", params), ",") + `)`
		}
		var step string
		err := each(t.Context(), tx, []any{&step}, func() { steps = append(steps, step) }, execute, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		_, err = tx.Exec(context.WithoutCancel(t.Context()), `DEALLOCATE planned`)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	return steps
}
