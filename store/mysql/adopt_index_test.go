package mysql

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/outboxlog"
)

// adoptedForTest returns a store on an adopted table of 20,000 rows, of which
// every hundredth waits.
func adoptedForTest(t *testing.T) *Store {
	t.Helper()
	at := DatabaseForTest(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { execForTest(t, serverForTest(t), "DROP DATABASE IF EXISTS "+u.Path[1:]+ownSuffix) })
	execForTest(t, at, `CREATE TABLE t_outbox_event (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_id VARCHAR(64) NOT NULL, event_type VARCHAR(64) NOT NULL,
 payload JSON NOT NULL, status VARCHAR(16) NOT NULL, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY (aggregate_id), KEY (status, id)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci`)
	execForTest(t, at, `INSERT INTO t_outbox_event (id, event_id, aggregate_id, event_type, payload, status)
SELECT 2 * i, CONCAT('e', i), CONCAT('k', i % 500), 'x', CONCAT('{"eventId": "e', i, '", "bizKey": "', REPEAT('b', 256), '"}'), IF(i % 100 = 0, 'PENDING', 'SENT') FROM `+numbers)
	execForTest(t, at, `ANALYZE TABLE t_outbox_event`)
	a, err := NewAdopt(at, migrate.AdoptConfig{Zone: "+08:00"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return OpenForTest(t, at+ownSuffix, Config{})
}

// The view of an adopted table stands in the place of the query: no copy of it
// is made, and its primary key gives the order.
func TestAPollReadsAnAdoptedTableByItsPrimaryKeyInOrder(t *testing.T) {
	s := adoptedForTest(t)
	l := s.Log()
	for _, holes := range []int{0, 100, 5000} {
		ids := oddIDs(holes)
		after := int64(30_000)
		if holes > 0 {
			for id := int64(50_000); id < 51_000; id++ { // a run
				ids = append(ids, id)
			}
			after = 70_000
		}
		query, args := l.pollQuery(relay.PollQuery{After: after, Holes: outboxlog.Below(ids, after)}, &outboxlog.Budget{Rows: 500, Bytes: 1 << 20})
		plan := planOf(t, s, s.reading(query), args...)
		if whole := readsWhole(plan); len(whole) > 0 {
			t.Errorf("with %d holes %+v are read whole\n%+v", holes, whole, plan)
		}
		found := false
		for _, step := range plan {
			found = found || step.table == "e"
			if step.table == "e" && (strings.Contains(step.extra, "filesort") || step.access != "range" && step.access != "eq_ref") {
				t.Errorf("with %d holes the table is read by %+v\n%+v", holes, step, plan)
			}
		}
		if !found {
			t.Errorf("with %d holes the view is copied: %+v", holes, plan)
		}
	}
	copied := "SELECT e.id FROM (SELECT * FROM settle_outbox_log LIMIT 1000) e WHERE e.id > 7"
	for _, step := range planOf(t, s, copied) {
		if step.table == "e" && step.access == "range" {
			t.Error("a view that is copied is not noticed")
		}
	}
}

func TestNoQueryOfTheRelayReadsAWholeAdoptedTable(t *testing.T) {
	s := adoptedForTest(t)
	now := time.Now().UTC()
	for name, q := range map[string]struct {
		query string
		args  []any
	}{
		"event at a cursor":   {eventAt, []any{7}},
		"ids given":           {givenUpTo, nil},
		"parked rows":         {sideParked, []any{"t", "k7", 10}},
		"delayed rows":        {fmt.Sprintf(sideDelayed, ""), []any{now, 10}},
		"late rows":           {fmt.Sprintf(sideExtra, ""), []any{0, 10}},
		"rows to be retained": {retainWindow, []any{now, 0, 100}},
		"probe of ids":        {probeSingle, []any{idList(oddIDs(1000))}},
		"rows that wait":      {s.status.waiting, []any{0, 40_000, 100}},
		"strays":              {ofRows(s.status.strays, oddIDs(100)), nil},
		"rows taken":          {s.status.taken, []any{100}},
		"another's rows":      {fmt.Sprintf(s.status.foreign, between([]outboxlog.Run{{30_000, 30_100}})), []any{0, 100}},
		"rows to be marked":   {ofRows(s.project.hold, oddIDs(500)), nil},
		"marking":             {ofRows(s.project.sent, oddIDs(500)), nil},
		"an event":            {"SELECT status FROM v_outbox_event WHERE event_id = ?", []any{"e7"}},
		"events of a key":     {"SELECT status FROM v_outbox_event WHERE aggregate_id = ?", []any{"k7"}},
	} {
		plan := planOf(t, s, s.reading(q.query), q.args...)
		for _, step := range readsWhole(plan) {
			if step.table == "e" || step.table == "t" && name == "strays" {
				t.Errorf("%s: reads %+v whole\n%+v", name, step, plan)
			}
		}
	}
	if len(readsWhole(planOf(t, s, "SELECT * FROM t_outbox_event e WHERE e.biz_key = ?", "x"))) == 0 {
		t.Error("a query that reads the whole table is not noticed")
	}
	var views int
	if err := s.own.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.views WHERE table_schema = DATABASE() AND table_name IN ('t_outbox_event', 'settle_outbox_log') AND security_type = 'INVOKER'`).Scan(&views); err != nil && err != sql.ErrNoRows || views != 2 {
		t.Errorf("%d views read with the rights of who asks, %v", views, err)
	}
}
