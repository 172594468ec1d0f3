package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// scans returns the steps of a query's plan that read a table of ours from end
// to end.
func scans(t *testing.T, s *Store, query string) []string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	if strings.Contains(query, "?1") {
		args = args[:0]
		for n := 1; strings.Contains(query, "?"+string(rune('0'+n))); n++ {
			args = append(args, "")
		}
	}
	rows, err := s.Reader().QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer func() { _ = rows.Close() }()
	var found []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		for _, alias := range []string{"t_", "l", "r", "d", "o", "a", "p", "c"} {
			name, _, _ := strings.Cut(strings.TrimPrefix(detail, "SCAN "), " ")
			if strings.HasPrefix(detail, "SCAN ") && (name == alias || strings.HasPrefix(name, "t_")) {
				found = append(found, detail)
				break
			}
		}
	}
	return found
}

func TestNoHotQueryReadsAWholeTable(t *testing.T) {
	s, err := Open(context.Background(), filepath.Join(t.TempDir(), "x.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for name, query := range map[string]string{
		"guard": guardPartition, "last number": lastProcessed, "group": readGroup, "log": readLog, "roots": readRoots, "lineages": readLineages,
		"effect": readEffect, "retries": readRetries, "blocked": readBlocked, "heads by id": readHeadsByID, "heads by seq": readHeadsBySeq,
		"sequence": readSeq, "passed": readPassed, "due heads": readDueHeads, "due one": readDueOne, "due key": readDueKey, "next due": readNextDue,
		"forgettable": readForgettable, "letters by state": listLettersState, "letters by id": listLettersIDs, "letters by key": listLettersKey,
		"letter": showLetter, "letter for an act": readLetter, "audit": readAudit, "trail": resolveTrail, "trail of outbox": trailOutbox,
		"trail of log": trailLog, "trail of retries": trailRetry, "trail of letters": trailLetters, "trail of acts": trailActs,
		"trail of parked": trailParked, "trail of published": trailPublished, "promote by id": promoteByID, "promote by seq": promoteBySeq,
		"end letter": endLetter, "partitions": readPartitions, "release": releasePartitions,
		"bridged": knowsBridged, "bridged before": findBefore, "ordered back": readOrdered, "next back": nextOrdered, "returned": markReturned, "tried": markTried,
		"told": readTold, "show bridged": showBridged,
	} {
		for _, scan := range scans(t, s, query) {
			// The last row of a table or index is one seek.
			if strings.HasSuffix(query, "FROM t_message_consume_log") {
				continue
			}
			t.Errorf("%s: %s", name, scan)
		}
	}
	if len(scans(t, s, `SELECT * FROM t_message_consume_log WHERE reason = ?`)) == 0 {
		t.Error("a query that reads the whole log is not noticed")
	}
}
