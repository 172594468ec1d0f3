package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A page is read in the order of the partitions, from that of the cursor on and
// no further than it is full, by a plan that is made once.
func TestAPollOfPartitionsBeginsAtTheCursorsAndSortsNothing(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	PartitionForTest(t, at, 2000) // ids up to 20,000: eight, and one without an end
	s := OpenForTest(t, at, Config{})
	fill(t, s)
	for name, query := range map[string]string{"poll": poll, "of large rows": pollWeighed, "without holes": pollWhole, "of a lane": pollLane, "of large rows of a lane": pollLaneWeighed} {
		plan := strings.Join(planWithValues(t, s, query), "\n")
		above := plan[strings.LastIndex(plan, "Limit"):]
		if !strings.Contains(above, "Subplans Removed: 8") || strings.Contains(above, "Sort") || strings.Count(above, "Index Cond: ((id > $1)") != 2 {
			t.Errorf("%s: what is above the cursor is read by\n%s", name, plan)
		}
		if holes := plan[:strings.LastIndex(plan, "Limit")]; query != pollWhole && (!strings.Contains(holes, "Subplans Removed: 9") || strings.Count(holes, "Index Cond: ((id >= run.first_id)") != 10) {
			t.Errorf("%s: holes are read by\n%s", name, plan)
		}
	}
}

func TestNoQueryOfTheRelayReadsAWholePartition(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	PartitionForTest(t, at, 2000)
	s := OpenForTest(t, at, Config{})
	fill(t, s)
	for name, query := range relayQueries() {
		for _, step := range planWithValues(t, s, query) {
			if strings.Contains(step, "Seq Scan on t_outbox_event") {
				t.Errorf("%s: %s\n%s", name, step, strings.Join(planWithValues(t, s, query), "\n"))
			}
		}
	}
	if got := planWithValues(t, s, "SELECT * FROM t_outbox_event e WHERE e.topic = $1"); !strings.Contains(strings.Join(got, " "), "Seq Scan on t_outbox_event") {
		t.Errorf("a query that reads all partitions is not noticed: %q", got)
	}
}

// valueOfType is one for the nth parameter: ids are in the partitions from 6,000
// on, those of holes in that from 8,000.
func valueOfType(n int, typed string) string {
	switch typed {
	case "bigint", "integer":
		return fmt.Sprint(7000 + 1000*n)
	case "bigint[]":
		return "'{9000,9002}'"
	case "text[]":
		return "'{t}'"
	case "timestamp with time zone":
		return "now()"
	}
	return "'t'"
}

// planWithValues is planOf of the tables that are left to read with values: the
// plan holds for any, and leaves out partitions when it begins.
func planWithValues(t *testing.T, s *Store, query string) (steps []string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `PREPARE planned AS `+query, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		var typed string
		var values []string
		err := each(t.Context(), tx, []any{&typed}, func() { values = append(values, valueOfType(len(values), typed)) },
			`SELECT format_type(oid, NULL) FROM unnest((SELECT parameter_types FROM pg_prepared_statements WHERE name = 'planned')) oid`)
		if err != nil {
			return err
		}
		execute := `EXPLAIN EXECUTE planned`
		if len(values) > 0 {
			execute += "(" + strings.Join(values, ", ") + ")"
		}
		var step string
		err = each(t.Context(), tx, []any{&step}, func() { steps = append(steps, step) }, execute, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		_, err = tx.Exec(context.WithoutCancel(t.Context()), `DEALLOCATE planned`)
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("%w\n%s", err, query))
	}
	return steps
}
