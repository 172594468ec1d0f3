package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fillInbox makes the tables of consumers so long that reading them whole shows
// in a plan.
func fillInbox(t *testing.T, s *Store) {
	t.Helper()
	for _, q := range []string{
		`INSERT INTO t_message_consume_log (consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, root_id, status, appended_at, processed_at)
 SELECT CONCAT('g', i % 5), CONCAT('e', i), 'x', CONCAT('k', i % 500), i, CONCAT('effect', i), CONCAT('e', i DIV 2), 'APPLIED', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO t_consume_retry (consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, parked_at, topic, ` + "`partition`, `offset`" + `, position, record_key, raw, headers)
 SELECT CONCAT('g', i % 5), CONCAT('k', i % 500), CONCAT('e', i), 'x', 'o', i, CONCAT('b', i), CONCAT('t', i), 'PARKED', true, 0,
 CASE WHEN i % 10 = 0 THEN UTC_TIMESTAMP(6) + INTERVAL i - 10000 SECOND END, 'c', '', UTC_TIMESTAMP(6), 't', 0, 0, 0, '', '{}', '{}' FROM ` + numbers,
		`INSERT INTO t_consume_seq SELECT 'g0', 'o', CONCAT('k', i), i FROM ` + numbers,
		`INSERT INTO t_consume_partition (consumer_group, topic, number) SELECT CONCAT('g', i % 5), CONCAT('t', i DIV 5), 0 FROM ` + numbers,
		`INSERT INTO t_dead_letter (service_side, consumer_group, event_id, class, reason, attempts, state, opened_at, due_at)
 SELECT 'consumer', CONCAT('g', i % 5), CONCAT('e', i), 'c', '', 1, 'OPEN', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM ` + numbers,
		`INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) SELECT CONCAT('member ', i DIV 4), i, 0, i, UTC_TIMESTAMP(6) FROM ` + numbers,
	} {
		if _, err := s.own.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
	}
	if err := each(t.Context(), s.own, []any{new(any), new(any), new(any), new(any)}, func() {},
		`ANALYZE TABLE t_message_consume_log, t_consume_retry, t_consume_seq, t_consume_partition, t_dead_letter, settle_renewal`); err != nil {
		t.Fatal(err)
	}
}

// What these cost may not depend on how long the tables are.
func TestNoQueryOfConsumersReadsAWholeTable(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	fillInbox(t, s)
	now := time.Now().UTC()
	two := places(2)
	for name, q := range map[string]struct {
		query string
		args  []any
	}{
		"group":                 {readGroup, []any{nil, "g1", "g1"}},
		"fence":                 {guardPartition, []any{"g1", "t7", 0}},
		"floor":                 {moveFloor, []any{1, "e", "", "g1", "t7", 0, "x", 1, 1}},
		"recorded":              {readRecorded + two, []any{"g1", "e1", "e6"}},
		"effects":               {readEffects + "event_type = ? AND effect_key = ? OR event_type = ? AND effect_key = ?)", []any{"g1", "x", "effect1", "x", "effect6"}},
		"log rows":              {fmt.Sprintf(readLog, two), []any{"g1", "e1", "e6"}},
		"log rows to lock":      {fmt.Sprintf(lockLog, two), []any{"g1", "e1", "e6"}},
		"heads":                 {readHeadsByID + " UNION ALL " + readHeadsByID, []any{"g1", "k1", 2, "g1", "k6", 2}},
		"heads by count":        {readHeadsBySeq, []any{"g1", "k1", 2}},
		"rows to lock":          {fmt.Sprintf(lockRetries, two), []any{7, 9}},
		"waiting rows":          {readRetries + two, []any{"g1", "m", 7, 9}},
		"roots":                 {readRoots + two, []any{"g1", "e1", "e6"}},
		"lineages":              {readEdited + two, []any{"g1", "e1", "e6"}},
		"first of lineages":     {readFirst + two, []any{"g1", "e1", "e6"}},
		"sequence":              {readSeq, []any{"g0", "o", "k7"}},
		"passed places":         {readPassed, []any{"k1", "g1", 7}},
		"change of a log row":   {changeLog, []any{nil, nil, "APPLIED", 1, nil, nil, nil, "g1", "e1"}},
		"deletion of a log row": {deleteLog, []any{"g1", "e1"}},
		"rejection":             {rejectLog, []any{"REJECTED", "", "g1", "e1"}},
		"superseded row":        {supersedeOther, []any{"", "g1", "e1"}},
		"next of a key":         {nextByID, []any{"g1", "k1"}},
		"next by count":         {nextBySeq, []any{"g1", "k1"}},
		"promotion":             {promoteByID, []any{now, "m", now, 7}},
		"row that waits on":     {updateRetry, []any{"PARKED", 1, now, "c", "", nil, "m", now, 7}},
		"row that goes":         {deleteRetry, []any{7}},
		"end of a letter":       {endLetter, []any{"REPLAYED", now, "", "", "g1", "e1"}},
		"what is due":           {findDue, []any{"g0", now, "m", now, 10}},
		"lock of what is due":   {fmt.Sprintf(lockDue, two), []any{7, 9, now, "m", now}},
		"followers":             {readFollowers, []any{7, now, "g1", "k1", 7, true, 7, 10}},
		"claim":                 {claimHeads + two, []any{"m", now, 7, 9}},
		"due rows":              {readDue + two, []any{7, 9}},
		"next due":              {readNextDue, []any{"g0", now}},
		"rows to forget":        {readForgettable, []any{100, 100}},
		"forgetting":            {forgetRow + two, []any{7, 9}},
		"members":               {readMembers, []any{"member 7"}},
		"members that are gone": {expireMembers, []any{"member 7", nil}},
		"partitions":            {readPartitions, []any{"g1", "t7"}},
		"taking":                {freePartition, []any{"g1", "t7", 0}},
		"leaving":               {leaveGroup, []any{"member 7", "7"}},
		"leaving what is due":   {findClaimed, []any{"g0", "m"}},
	} {
		plan := planOf(t, s, q.query, q.args...)
		if whole := readsWhole(plan); len(whole) > 0 {
			t.Errorf("%s: reads %+v whole\n%+v", name, whole, plan)
		}
		sorted := strings.Contains(fmt.Sprint(plan), "filesort")
		if sorted && (name == "what is due" || name == "heads" || name == "next of a key" || name == "rows to forget") {
			t.Errorf("%s: sorts all that there is: %+v", name, plan)
		}
	}
	if len(readsWhole(planOf(t, s, "SELECT * FROM t_consume_retry WHERE class = ?", "x"))) == 0 {
		t.Error("a query that reads all that waits is not noticed")
	}
}
