package drill

import (
	"context"
	"database/sql"
)

// steps are the facts of one order's way: its events, what each group did with
// them, what outside systems did, what became dead letters, and what people
// did about those.
type steps struct {
	events  []emission
	applied []application
	outside []entry
	letters []deadLetter
	acts    []act
}

type emission struct {
	id, cause, service, event string
	due                       int64 // its commit, or for a timer its time
	created                   int64
	sent                      sql.NullInt64
	where                     string
	copies, planted           int
}

// late is how many seconds after its commit, or its time, the service knew that
// it was published; 0 if it does not.
func (e emission) late() float64 {
	if !e.sent.Valid {
		return 0
	}
	return float64(e.sent.Int64-e.due) / 1e6
}

type application struct {
	group, id, status string
	attempts          int
	at                int64
}

type entry struct {
	at           int64
	system, kind string
	amount       Cents
}

type deadLetter struct {
	at                          int64
	group, event, class, reason string
	attempts                    int
}

type act struct {
	at                                  int64
	actor, action, reason, group, event string
}

// maxSteps bounds what is read of each kind.
const maxSteps = 200

const readEmissions = `SELECT e.event_id, COALESCE(e.causation_id,''), e.service, e.event_type, MAX(e.created_at,COALESCE(e.not_before,0)), e.created_at, e.sent_at,
  CASE WHEN e.broker_offset IS NULL THEN '' ELSE e.topic||'['||e.broker_partition||']@'||e.broker_offset END,
  (SELECT COUNT(*) FROM broker_log b WHERE b.event_id=e.event_id),
  (SELECT COUNT(*) FROM broker_log b JOIN planted p ON p.topic=b.topic AND p.broker_partition=b.broker_partition AND p.broker_offset=b.broker_offset WHERE b.event_id=e.event_id)
 FROM outbox e WHERE e.aggregate_type IN (SELECT DISTINCT aggregate_type FROM outbox) AND e.aggregate_id=:order ORDER BY e.created_at, e.aggregate_seq LIMIT :most`

const readApplications = `SELECT consumer, event_id, status, attempts, processed_at FROM inbox
 WHERE consumer IN (SELECT DISTINCT consumer FROM subscription)
  AND event_id IN (SELECT event_id FROM outbox WHERE aggregate_type IN (SELECT DISTINCT aggregate_type FROM outbox) AND aggregate_id=:order)
 ORDER BY processed_at, consumer LIMIT :most`

const readEntries = `SELECT created_at, system, kind, amount_cents FROM outside_ledger WHERE order_id=:order ORDER BY created_at LIMIT :most`

const readDeadLetters = `SELECT opened_at, consumer, event_type, class, reason, attempts FROM dead_letter WHERE aggregate_id=:order ORDER BY opened_at LIMIT :most`

const readActs = `SELECT a.at_us, a.actor, a.action, a.reason, d.consumer, d.event_type FROM dead_letter d
 JOIN audit_log a ON a.service=d.service AND a.target=d.consumer||':'||d.event_id WHERE d.aggregate_id=:order ORDER BY a.at_us LIMIT :most`

func (f *Facts) steps(ctx context.Context, order string) (steps, error) {
	var s steps
	for _, q := range []struct {
		text  string
		visit func(*sql.Rows) error
	}{
		{readEmissions, func(rows *sql.Rows) error {
			var e emission
			err := rows.Scan(&e.id, &e.cause, &e.service, &e.event, &e.due, &e.created, &e.sent, &e.where, &e.copies, &e.planted)
			s.events = append(s.events, e)
			return err
		}},
		{readApplications, func(rows *sql.Rows) error {
			var a application
			err := rows.Scan(&a.group, &a.id, &a.status, &a.attempts, &a.at)
			s.applied = append(s.applied, a)
			return err
		}},
		{readEntries, func(rows *sql.Rows) error {
			var e entry
			err := rows.Scan(&e.at, &e.system, &e.kind, &e.amount)
			s.outside = append(s.outside, e)
			return err
		}},
		{readDeadLetters, func(rows *sql.Rows) error {
			var d deadLetter
			err := rows.Scan(&d.at, &d.group, &d.event, &d.class, &d.reason, &d.attempts)
			s.letters = append(s.letters, d)
			return err
		}},
		{readActs, func(rows *sql.Rows) error {
			var a act
			err := rows.Scan(&a.at, &a.actor, &a.action, &a.reason, &a.group, &a.event)
			s.acts = append(s.acts, a)
			return err
		}},
	} {
		if err := each(ctx, f.db, q.text, q.visit, sql.Named("order", order), sql.Named("most", maxSteps)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// causedBy returns what a group emitted because of what it applied.
func (s steps) causedBy(a application) []emission {
	var all []emission
	for _, e := range s.events {
		if e.cause == a.id && e.service == a.group {
			all = append(all, e)
		}
	}
	return all
}

func (s steps) eventOf(id string) string {
	for _, e := range s.events {
		if e.id == id {
			return e.event
		}
	}
	return id
}
