package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
)

// maxTrail bounds how many events one trail tells of: an aggregate may have a
// long life.
const maxTrail = 500

// logGroups names the groups of the consume log by one seek for each.
const logGroups = `WITH RECURSIVE g(name) AS (
  SELECT min(consumer_group) FROM t_message_consume_log UNION ALL
  SELECT (SELECT min(consumer_group) FROM t_message_consume_log WHERE consumer_group > g.name) FROM g WHERE g.name IS NOT NULL) `

const resolveTrail = logGroups + `SELECT event_id FROM (
SELECT event_id FROM t_outbox_event WHERE aggregate_id = ?1
UNION SELECT event_id FROM t_outbox_event WHERE biz_key = ?1
UNION SELECT event_id FROM t_outbox_event WHERE event_id = ?1
UNION SELECT event_id FROM t_outbox_event WHERE trace_id = ?1
UNION SELECT event_id FROM t_message_consume_log WHERE aggregate_id = ?1
UNION SELECT l.event_id FROM g JOIN t_message_consume_log l ON l.consumer_group = g.name AND l.event_id = ?1
UNION SELECT event_id FROM t_consume_retry WHERE biz_key = ?1
UNION SELECT event_id FROM t_consume_retry WHERE trace_id = ?1 AND trace_id <> ''
UNION SELECT event_id FROM t_dead_letter WHERE aggregate_id = ?1
UNION SELECT event_id FROM t_dead_letter WHERE biz_key = ?1
UNION SELECT event_id FROM t_dead_letter WHERE event_id = ?1
UNION SELECT event_id FROM t_dead_letter WHERE trace_id = ?1 AND trace_id <> ''
UNION SELECT event_id FROM t_half_message WHERE event_id = ?1
UNION SELECT event_id FROM t_half_message WHERE aggregate_id = ?1
UNION SELECT event_id FROM t_half_message WHERE biz_key = ?1
UNION SELECT event_id FROM t_half_message WHERE trace_id = ?1
UNION SELECT event_id FROM t_half_check WHERE event_id = ?1 AND event_id <> ''
UNION SELECT event_id FROM t_half_check WHERE aggregate_id = ?1 AND event_id <> ''
) LIMIT ?2`

// trail gathers what one snapshot of the file knows of some events.
type trail struct {
	tx     *sql.Tx
	events string // JSON list of event ids
	steps  []govern.Step
	// outbox holds the first step of events that began here, by event id.
	outbox map[string]govern.Step
}

// Trail implements govern.Trails.
func (g *Governance) Trail(ctx context.Context, id string) ([]govern.Step, error) {
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var events []string
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var event string
		err := rows.Scan(&event)
		events = append(events, event)
		return err
	}, resolveTrail, id, maxTrail)
	if err != nil {
		return nil, fmt.Errorf("find events of %s: %w", id, err)
	}
	if len(events) == 0 {
		return nil, nil
	}
	t := &trail{tx: tx, events: list(events), outbox: map[string]govern.Step{}}
	for _, read := range []func(context.Context) error{t.appended, t.halves, t.published, t.parkedAtRelay, t.consumed, t.waiting, t.letters, t.acts} {
		if err := read(ctx); err != nil {
			return nil, fmt.Errorf("read trail of %s: %w", id, err)
		}
	}
	for i := range t.steps {
		t.complete(&t.steps[i], g.s.service)
	}
	slices.SortStableFunc(t.steps, func(a, b govern.Step) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.EventID, b.EventID)) })
	return t.steps, nil
}

// complete fills what only the outbox knows.
func (t *trail) complete(s *govern.Step, service string) {
	s.Service = service
	first, ok := t.outbox[s.EventID]
	if !ok {
		return
	}
	s.EventType, s.Key = cmp.Or(s.EventType, first.EventType), cmp.Or(s.Key, first.Key)
	s.TraceID, s.Causation = cmp.Or(s.TraceID, first.TraceID), cmp.Or(s.Causation, first.Causation)
}

const trailOutbox = `SELECT event_id, event_type, aggregate_id, coalesce(trace_id, ''), coalesce(causation_id, ''), appended_at, topic
FROM t_outbox_event WHERE event_id IN (SELECT value FROM json_each(?)) ORDER BY id`

func (t *trail) appended(ctx context.Context) error {
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StageAppended}
		var at int64
		err := rows.Scan(&s.EventID, &s.EventType, &s.Key, &s.TraceID, &s.Causation, &at, &s.Broker.Topic)
		s.At = fromMicros(at)
		s.Note = "for topic " + s.Broker.Topic
		s.Broker = settle.Coordinates{}
		t.outbox[s.EventID] = s
		t.steps = append(t.steps, s)
		return err
	}, trailOutbox, t.events)
}

const trailPublished = `SELECT o.event_id, s.sent_at, s.topic, s.partition, s.offset
FROM t_outbox_event o JOIN v_outbox_sent s ON s.id = o.id AND s.first_id <= o.id AND s.last_id >= o.id
WHERE o.event_id IN (SELECT value FROM json_each(?))`

// published finds, in the checkpoints, where the broker has each event.
func (t *trail) published(ctx context.Context) error {
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StagePublished}
		var at int64
		err := rows.Scan(&s.EventID, &at, &s.Broker.Topic, &s.Broker.Partition, &s.Broker.Offset)
		s.At = fromMicros(at)
		t.steps = append(t.steps, s)
		return err
	}, trailPublished, t.events)
}

const trailParked = `SELECT o.event_id, p.attempts, p.next_at, p.class, p.cause, p.parked_at
FROM t_outbox_event o JOIN t_outbox_parked p ON p.id = o.id WHERE o.event_id IN (SELECT value FROM json_each(?)) AND p.dead = 0`

const trailDelayed = `SELECT o.event_id, d.due_at, o.appended_at
FROM t_outbox_event o JOIN t_outbox_delayed d ON d.id = o.id WHERE o.event_id IN (SELECT value FROM json_each(?))`

func (t *trail) parkedAtRelay(ctx context.Context) error {
	err := each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StageParked}
		var next sql.NullInt64
		var class, cause string
		var at int64
		err := rows.Scan(&s.EventID, &s.Attempts, &next, &class, &cause, &at)
		t.waits(s, at, next, class, cause)
		return err
	}, trailParked, t.events)
	if err != nil {
		return err
	}
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StageDelayed}
		var next sql.NullInt64
		var at int64
		err := rows.Scan(&s.EventID, &next, &at)
		t.waits(s, at, next, "delayed", "by its producer")
		return err
	}, trailDelayed, t.events)
}

func (t *trail) waits(s govern.Step, at int64, next sql.NullInt64, class, cause string) {
	s.At, s.Note = fromMicros(at), class+": "+cause
	if next.Valid {
		due := fromMicros(next.Int64)
		s.NextAt = &due
	}
	t.steps = append(t.steps, s)
}

const trailLog = logGroups + `SELECT l.consumer_group, l.event_id, l.event_type, l.aggregate_id, l.status, l.attempts, l.processed_at, coalesce(l.reason, '')
FROM g JOIN t_message_consume_log l ON l.consumer_group = g.name WHERE l.event_id IN (SELECT value FROM json_each(?)) ORDER BY l.processed_no`

// consumed tells what ended; what waits or is dead has a row elsewhere.
func (t *trail) consumed(ctx context.Context) error {
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		var s govern.Step
		var status string
		var at int64
		err := rows.Scan(&s.Group, &s.EventID, &s.EventType, &s.Key, &status, &s.Attempts, &at, &s.Note)
		s.At = fromMicros(at)
		switch status {
		case consumelog.StatusApplied, consumelog.StatusSuccess:
			s.Stage = govern.StageApplied
		case consumelog.StatusRejected:
			s.Stage = govern.StageRejected
		case consumelog.StatusCompensated:
			s.Stage = govern.StageCompensated
		case consumelog.StatusDuplicate:
			s.Stage = govern.StageDuplicate
		case consumelog.StatusSuperseded:
			s.Stage = govern.StageDiscarded
		case consumelog.StatusParked, consumelog.StatusDead, consumelog.StatusDiscarded:
			return err
		default:
			s.Stage, s.Note = govern.StageParked, "left "+status+" by a foreign consumer"
		}
		t.steps = append(t.steps, s)
		return err
	}, trailLog, t.events)
}

const trailRetry = logGroups + `SELECT r.consumer_group, r.event_id, r.event_type, r.aggregate_id, r.trace_id, r.attempts, r.next_at, r.class, r.cause, r.parked_at,
r.topic, r.partition, r.offset
FROM g JOIN t_consume_retry r ON r.consumer_group = g.name WHERE r.event_id IN (SELECT value FROM json_each(?)) AND r.state = 'PARKED'`

func (t *trail) waiting(ctx context.Context) error {
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StageParked}
		var next sql.NullInt64
		var class, cause string
		var at int64
		err := rows.Scan(&s.Group, &s.EventID, &s.EventType, &s.Key, &s.TraceID, &s.Attempts, &next, &class, &cause, &at,
			&s.Broker.Topic, &s.Broker.Partition, &s.Broker.Offset)
		t.waits(s, at, next, class, cause)
		return err
	}, trailRetry, t.events)
}

const trailLetters = `SELECT d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.trace_id, d.attempts, d.class, d.reason, d.opened_at, d.topic, d.partition, d.offset,
b.died_at, b.bridged_at, b.before_id FROM t_dead_letter d LEFT JOIN t_bridged_letter b ON b.letter_id = d.id
WHERE d.event_id IN (SELECT value FROM json_each(?)) ORDER BY d.id`

func (t *trail) letters(ctx context.Context) error {
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		s := govern.Step{Stage: govern.StageDead}
		var class, reason string
		var at int64
		var died, bridged, before sql.NullInt64
		err := rows.Scan(&s.Group, &s.EventID, &s.EventType, &s.Key, &s.TraceID, &s.Attempts, &class, &reason, &at,
			&s.Broker.Topic, &s.Broker.Partition, &s.Broker.Offset, &died, &bridged, &before)
		s.At, s.Note = fromMicros(at), class+": "+reason
		if bridged.Valid {
			s.At, s.Note = bridgelog.Step(s.Group, s.Note, when(died), when(bridged), before.Int64)
		}
		t.steps = append(t.steps, s)
		return err
	}, trailLetters, t.events)
}

const trailActs = `SELECT e.value, d.consumer_group, d.event_type, d.aggregate_id, a.at, a.actor, a.action, a.reason
FROM json_each(?1) e JOIN t_dead_letter d ON d.event_id = e.value
JOIN t_audit a ON a.target = (CASE d.service_side WHEN 'relay' THEN 'relay' WHEN 'txmsg' THEN 'txmsg' ELSE d.consumer_group END) || ':' || d.event_id || (CASE d.service_side WHEN 'bridge' THEN '#' || d.id ELSE '' END)
UNION ALL SELECT e.value, '', '', '', a.at, a.actor, a.action, a.reason FROM json_each(?1) e JOIN t_audit a ON a.target = e.value`

func (t *trail) acts(ctx context.Context) error {
	stages := map[string]string{"dlq.replay": govern.StageReplay, "dlq.compensate": govern.StageCompensate, "dlq.discard": govern.StageDiscarded, "control.skip": govern.StageDiscarded, govern.ActionResend: govern.StageResend}
	return each(ctx, t.tx, func(rows *sql.Rows) error {
		var s govern.Step
		var at int64
		var action string
		err := rows.Scan(&s.EventID, &s.Group, &s.EventType, &s.Key, &at, &s.By, &action, &s.Note)
		s.At, s.Stage = fromMicros(at), stages[action]
		if s.Stage != "" {
			t.steps = append(t.steps, s)
		}
		return err
	}, trailActs, t.events)
}
