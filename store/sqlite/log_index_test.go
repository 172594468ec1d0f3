package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every poll and every commit runs these; what they cost may not depend on how
// long the tables are.
func TestNoQueryOfTheRelayReadsAWholeLog(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for name, query := range map[string]string{
		"poll": pollAbove, "holes": pollHoles, "head": head, "newest checkpoint": newestCheckpoint, "event at a cursor": eventAt,
		"sent": dropParkedRow, "parked rows": sideParked, "delayed rows": sideDelayed, "attempt": setAttempt,
		"dead": setDead, "dead letter": openRelayLetter, "end of a replay": endReplay, "discard by skip": discardLetter,
		"window of rows": retainWindow, "rows to delete": retainRows, "window of checkpoints": pruneWindow, "checkpoints to delete": pruneCheckpoints,
		"duplicate":          findEvent,
		"status of an event": "SELECT status FROM v_outbox_event WHERE event_id = ?",
		"status by key":      "SELECT status FROM v_outbox_event WHERE aggregate_id = ?",
		"where an event is":  "SELECT offset FROM v_outbox_sent WHERE id = ? AND first_id <= ? AND last_id >= ?",
	} {
		for _, step := range planOf(t, s, query) {
			for _, table := range []string{"t_outbox_event", "t_outbox_checkpoint", "t_outbox_parked", "t_dead_letter", "e", "c", "p", "d"} {
				if step == "SCAN "+table {
					t.Errorf("%s: %s", name, step)
				}
			}
		}
	}
	if got := planOf(t, s, "SELECT * FROM t_outbox_event e WHERE e.topic = ?"); len(got) != 1 || got[0] != "SCAN e" {
		t.Errorf("a query that reads the whole log is not noticed: %q", got)
	}
}

func planOf(t *testing.T, s *Store, query string) []string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	if n := strings.LastIndex(query, "?1"); n >= 0 {
		args = args[:0]
		for n := 1; strings.Contains(query, "?"+string(rune('0'+n))); n++ {
			args = append(args, "")
		}
	}
	rows, err := s.Reader().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer func() { _ = rows.Close() }()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, detail)
	}
	return steps
}
