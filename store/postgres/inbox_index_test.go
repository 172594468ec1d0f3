package postgres

import (
	"strings"
	"testing"
)

// fillInbox makes the tables of consumers so long that reading them whole shows
// in a plan.
func fillInbox(t *testing.T, s *Store) {
	t.Helper()
	for _, q := range []string{
		`INSERT INTO t_message_consume_log (consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, root_id, status, appended_at, processed_at)
 SELECT 'g' || i % 5, 'e' || i, 'x', 'k' || i % 500, i, 'effect' || i, 'e' || i / 2, 'APPLIED', now(), now() FROM generate_series(1, 20000) i`,
		`INSERT INTO t_consume_retry (consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, parked_at, topic, partition, "offset", position, record_key, raw, headers)
 SELECT 'g' || i % 5, 'k' || i % 500, 'e' || i, 'x', 'o', i, 'b' || i, 't' || i, 'PARKED', true, 0,
 CASE WHEN i % 10 = 0 THEN now() + (i - 10000) * interval '1 s' END, 'c', '', now(), 't', 0, 0, 0, '', '{}', '{}' FROM generate_series(1, 20000) i`,
		`INSERT INTO t_consume_seq SELECT 'g', 'o', 'k' || i, i FROM generate_series(1, 20000) i`,
		`INSERT INTO t_consume_partition (consumer_group, topic, number) SELECT 'g' || i % 5, 't' || i / 5, 0 FROM generate_series(1, 20000) i`,
		`UPDATE t_dead_letter SET aggregate_id = 'k' || id, biz_key = 'b' || id, trace_id = 't' || id`,
		`UPDATE settle_renewal SET scope = 'member ' || name`,
		`ANALYZE t_message_consume_log, t_consume_retry, t_consume_seq, t_consume_partition, t_dead_letter, settle_renewal`,
	} {
		if _, err := s.own.Exec(t.Context(), q); err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
	}
}

// What these cost may not depend on how long the tables are.
func TestNoQueryOfConsumersOrPeopleReadsAWholeTable(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fill(t, s)
	fillInbox(t, s)
	for name, query := range map[string]string{
		"group": readGroup, "owners": readOwnership, "floor": moveFloor, "keys": lockKeys, "waiting rows": readRetries, "log rows to lock": lockLog, "log rows": readLog,
		"effects": readEffects, "heads": readHeadsByID, "heads by count": readHeadsBySeq, "roots": readRoots, "lineages": readLineages, "sequences": readSeqs,
		"passed places": readPassed, "change of a log row": changeLog, "deletion of a log row": deleteLog, "rejection": rejectLog, "own row": supersedeOwn,
		"promotion": promoteByID, "promotion by count": promoteBySeq, "row that waits on": updateRetry, "end of a letter": endLetter,
		"what is due": readCandidates, "due rows": readDue, "next due": readNextDue, "rows to forget": readForgettable, "forgetting": forgetRows,
		"members": readMembers, "partitions": readPartitions, "taking": takePartitions, "giving back": releasePartitions,
		"letters": listLettersState, "letters by id": listLettersIDs, "letters by key": listLettersKey, "letter": showLetter,
		"lock of a letter": lockLetter, "lock of its log row": lockLetterLog, "revival": reviveRetry, "remade row": remakeRetry, "tried": triedToCompensate,
		"discarded row": discardRetry, "discarded log row": discardLog, "passed place": passSeq, "end of the chain": lastAudit, "chain": readAudit,
		"events of a trail": resolveTrail, "events of a lean trail": resolveTrailLean, "trail at the outbox": trailOutbox, "trail at the broker": trailPublished, "trail of what is parked": trailParked,
		"trail of what is delayed": trailDelayed, "trail of the log": trailLog, "trail of what waits": trailRetry, "trail of letters": trailLetters,
	} {
		plan := planOf(t, s, query)
		for _, step := range plan {
			for _, table := range []string{"t_outbox_event", "t_message_consume_log", "t_consume_retry", "t_consume_seq", "t_consume_partition", "t_dead_letter", "settle_renewal"} {
				if strings.Contains(step, "Seq Scan on "+table) {
					t.Errorf("%s: %s\n%s", name, step, strings.Join(plan, "\n"))
				}
			}
		}
	}
	if got := planOf(t, s, "SELECT * FROM t_consume_retry WHERE class = $1"); !strings.Contains(strings.Join(got, " "), "Seq Scan on t_consume_retry") {
		t.Errorf("a query that reads all that waits is not noticed: %q", got)
	}
}
