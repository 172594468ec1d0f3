package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
)

// maxTrail bounds how many events one trail tells of: an aggregate may have a
// long life.
const maxTrail = 500

// logGroups names the groups of the consume log by one seek for each.
const logGroups = `(SELECT DISTINCT consumer_group FROM t_message_consume_log) g STRAIGHT_JOIN `

const resolveTrail = `SELECT event_id FROM (
SELECT (e.event_id) AS event_id FROM t_outbox_event e WHERE e.event_id = ?
UNION SELECT (e.event_id) FROM t_outbox_event e WHERE e.aggregate_id = ?
UNION SELECT (e.event_id) FROM t_outbox_event e WHERE e.biz_key = ?
UNION SELECT (e.event_id) FROM t_outbox_event e WHERE e.trace_id = ?
` + resolveElsewhere

// resolveTrailLean is the same where the outbox has no indexes to search by.
const resolveTrailLean = `SELECT event_id FROM (
SELECT (e.event_id) AS event_id FROM t_outbox_event e WHERE e.event_id = ?
UNION SELECT p.event_id FROM (SELECT DISTINCT destination FROM t_outbox_parked) d STRAIGHT_JOIN t_outbox_parked p FORCE INDEX (i_outbox_parked_key) ON p.destination = d.destination AND p.aggregate_id = ?
` + resolveElsewhere

const resolveElsewhere = `UNION SELECT event_id FROM t_message_consume_log WHERE aggregate_id = ?
UNION SELECT l.event_id FROM ` + logGroups + `t_message_consume_log l ON l.consumer_group = g.consumer_group AND l.event_id = ?
UNION SELECT event_id FROM t_consume_retry WHERE biz_key = ?
UNION SELECT event_id FROM t_consume_retry WHERE trace_id = ? AND trace_id <> ''
UNION SELECT event_id FROM t_dead_letter WHERE aggregate_id = ?
UNION SELECT event_id FROM t_dead_letter WHERE biz_key = ?
UNION SELECT event_id FROM t_dead_letter WHERE event_id = ?
UNION SELECT event_id FROM t_dead_letter WHERE trace_id = ? AND trace_id <> ''
UNION SELECT event_id FROM t_half_message WHERE event_id = ?
UNION SELECT event_id FROM t_half_message WHERE aggregate_id = ?
UNION SELECT event_id FROM t_half_message WHERE biz_key = ?
UNION SELECT event_id FROM t_half_message WHERE trace_id = ?
UNION SELECT event_id FROM t_half_check WHERE event_id = ? AND event_id <> ''
UNION SELECT event_id FROM t_half_check WHERE aggregate_id = ? AND event_id <> ''
) found LIMIT ?`

// Unsearched implements govern.Partial: it is true of a lean layout.
func (g *Governance) Unsearched(ctx context.Context) (lean bool, err error) {
	if lean, err = g.lean(ctx, g.s.reader); err != nil {
		return false, fmt.Errorf("look for indexes of the outbox: %w", explain(err))
	}
	return lean, nil
}

// lean reports whether an index is missing that the outbox is searched by. The
// indexes of an adopted table are its owner's, and it is searched all the same.
func (g *Governance) lean(ctx context.Context, db querier) (bool, error) {
	if g.s.adopted != nil {
		return false, nil
	}
	if g.s.adopted != nil {
		return false, nil
	}
	names, err := present(ctx, db)
	return searched(names) < len(searchIndexNames()), err
}

// trail gathers what one snapshot of the database knows of some events.
type trail struct {
	tx     *sql.Tx
	events []any
	steps  []govern.Step
	// outbox holds the first step of events that began here, by event id.
	outbox map[string]govern.Step
}

// Trail implements govern.Trails.
func (g *Governance) Trail(ctx context.Context, id string) ([]govern.Step, error) {
	t := &trail{outbox: map[string]govern.Step{}}
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error {
		t.tx = tx
		query := resolveTrail
		lean, err := g.lean(ctx, tx)
		if err != nil {
			return err
		}
		if lean {
			query = resolveTrailLean
		}
		var event string
		args := append(slices.Repeat([]any{fit(id)}, strings.Count(query, "?")-1), maxTrail)
		err = each(ctx, tx, []any{&event}, func() { t.events = append(t.events, event) }, g.s.reading(query), args...)
		if err != nil || len(t.events) == 0 {
			return err
		}
		for _, read := range []func(context.Context) error{t.appended, t.halves, t.published, t.parkedAtRelay, t.consumed, t.waiting, t.letters, t.acts} {
			if err := read(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read trail of %s: %w", id, explain(err))
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

// ofEvents runs a query in which each %s is the list of events.
func (t *trail) ofEvents(ctx context.Context, query string, into []any, do func()) error {
	query = strings.ReplaceAll(query, "%s", times(len(t.events), "?"))
	args := slices.Repeat(t.events, strings.Count(query, "?")/len(t.events))
	return each(ctx, t.tx, into, do, query, args...)
}

// stepRow is a step as its columns are read.
type stepRow struct {
	govern.Step
	at, next timeColumn
	// class, and status or act, where the table has one.
	class, word string
}

// step returns what was read, with the note made of class and cause if it has one.
func (r *stepRow) step(stage string) govern.Step {
	s := r.Step
	s.Stage, s.At = stage, r.at.Time
	if r.class != "" {
		s.Note = r.class + ": " + s.Note
	}
	if due := r.next.Time; !due.IsZero() {
		s.NextAt = &due
	}
	return s
}

const trailOutbox = `SELECT event_id, event_type, aggregate_id, coalesce(trace_id, ''), coalesce(causation_id, ''), appended_at, concat('for topic ', topic)
FROM t_outbox_event WHERE event_id IN (%s) ORDER BY id`

func (t *trail) appended(ctx context.Context) error {
	var r stepRow
	return t.ofEvents(ctx, trailOutbox, []any{&r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Causation, &r.at, &r.Note}, func() {
		s := r.step(govern.StageAppended)
		t.outbox[s.EventID] = s
		t.steps = append(t.steps, s)
	})
}

const trailIDs = `SELECT event_id, id FROM t_outbox_event WHERE event_id IN (%s) ORDER BY id`

// published finds, in the checkpoints, where the broker has each event.
func (t *trail) published(ctx context.Context) error {
	var eventID string
	var id int64
	var ids []int64
	events := map[int64]string{}
	err := t.ofEvents(ctx, trailIDs, []any{&eventID, &id}, func() {
		events[id], ids = eventID, append(ids, id)
	})
	if err != nil {
		return err
	}
	return eachSent(ctx, t.tx, ids, func(s sentRow) {
		step := govern.Step{Stage: govern.StagePublished, At: s.at.Time, EventID: events[s.id]}
		step.Broker.Topic, step.Broker.Partition, step.Broker.Offset = s.topic.string, s.partition, s.offset
		t.steps = append(t.steps, step)
	})
}

const (
	trailParked = `SELECT o.event_id, p.attempts, p.next_at, p.class, p.cause, p.parked_at
FROM t_outbox_event o JOIN t_outbox_parked p ON p.id = o.id WHERE o.event_id IN (%s) AND NOT p.dead`

	trailDelayed = `SELECT o.event_id, 0, d.due_at, 'delayed', 'by its producer', o.appended_at
FROM t_outbox_event o JOIN t_outbox_delayed d ON d.id = o.id WHERE o.event_id IN (%s)`
)

func (t *trail) parkedAtRelay(ctx context.Context) error {
	for stage, query := range map[string]string{govern.StageParked: trailParked, govern.StageDelayed: trailDelayed} {
		var r stepRow
		err := t.ofEvents(ctx, query, []any{&r.EventID, &r.Attempts, &r.next, &r.class, &r.Note, &r.at}, func() {
			t.steps = append(t.steps, r.step(stage))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const trailLog = `SELECT l.consumer_group, l.event_id, l.event_type, l.aggregate_id, l.status, l.attempts, l.processed_at, coalesce(l.reason, '')
FROM ` + logGroups + `t_message_consume_log l ON l.consumer_group = g.consumer_group AND l.event_id IN (%s) ORDER BY l.processed_no`

// consumed tells what ended; what waits or is dead has a row elsewhere.
func (t *trail) consumed(ctx context.Context) error {
	stages := map[string]string{
		consumelog.StatusApplied: govern.StageApplied, consumelog.StatusSuccess: govern.StageApplied, consumelog.StatusRejected: govern.StageRejected,
		consumelog.StatusCompensated: govern.StageCompensated, consumelog.StatusDuplicate: govern.StageDuplicate, consumelog.StatusSuperseded: govern.StageDiscarded,
		consumelog.StatusParked: "", consumelog.StatusDead: "", consumelog.StatusDiscarded: "",
	}
	var r stepRow
	return t.ofEvents(ctx, trailLog, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.word, &r.Attempts, &r.at, &r.Note}, func() {
		stage, ours := stages[r.word]
		if ours && stage == "" {
			return
		}
		s := r.step(stage)
		if !ours {
			s.Stage, s.Note = govern.StageParked, "left "+r.word+" by a foreign consumer"
		}
		t.steps = append(t.steps, s)
	})
}

const trailRetry = `SELECT r.consumer_group, r.event_id, r.event_type, r.aggregate_id, r.trace_id, r.attempts, r.next_at, r.class, r.cause, r.parked_at,
r.topic, r.` + "`partition`, r.`offset`" + ` FROM ` + logGroups + `t_consume_retry r ON r.consumer_group = g.consumer_group AND r.event_id IN (%s) WHERE r.state = 'PARKED'`

func (t *trail) waiting(ctx context.Context) error {
	var r stepRow
	return t.ofEvents(ctx, trailRetry, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Attempts, &r.next, &r.class, &r.Note, &r.at,
		&r.Broker.Topic, &r.Broker.Partition, &r.Broker.Offset}, func() {
		t.steps = append(t.steps, r.step(govern.StageParked))
	})
}

const trailLetters = "SELECT d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.trace_id, d.attempts, d.class, d.reason, d.opened_at, d.topic, d.`partition`, d.`offset`" + `,
b.died_at, b.bridged_at, coalesce(b.before_id, 0) FROM t_dead_letter d LEFT JOIN t_bridged_letter b ON b.letter_id = d.id WHERE d.event_id IN (%s) ORDER BY d.id`

func (t *trail) letters(ctx context.Context) error {
	var r stepRow
	var died, bridged timeColumn
	var before int64
	return t.ofEvents(ctx, trailLetters, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Attempts, &r.class, &r.Note, &r.at,
		&r.Broker.Topic, &r.Broker.Partition, &r.Broker.Offset, &died, &bridged, &before}, func() {
		s := r.step(govern.StageDead)
		if !bridged.IsZero() {
			s.At, s.Note = bridgelog.Step(s.Group, s.Note, died.Time, bridged.Time, before)
		}
		t.steps = append(t.steps, s)
	})
}

const trailActs = `SELECT d.event_id, d.consumer_group, d.event_type, d.aggregate_id, a.at, a.actor, a.action, a.reason
FROM t_dead_letter d JOIN t_audit a ON a.target = concat(CASE d.service_side WHEN 'relay' THEN 'relay' WHEN 'txmsg' THEN 'txmsg' ELSE d.consumer_group END, ':', d.event_id, CASE d.service_side WHEN 'bridge' THEN concat('#', d.id) ELSE '' END)
WHERE d.event_id IN (%s)
UNION ALL SELECT a.target, '', '', '', a.at, a.actor, a.action, a.reason FROM t_audit a WHERE a.target IN (%s)`

func (t *trail) acts(ctx context.Context) error {
	stages := map[string]string{"dlq.replay": govern.StageReplay, "dlq.compensate": govern.StageCompensate, "dlq.discard": govern.StageDiscarded, "control.skip": govern.StageDiscarded, govern.ActionResend: govern.StageResend}
	var r stepRow
	return t.ofEvents(ctx, trailActs, []any{&r.EventID, &r.Group, &r.EventType, &r.Key, &r.at, &r.By, &r.word, &r.Note}, func() {
		if stage := stages[r.word]; stage != "" {
			t.steps = append(t.steps, r.step(stage))
		}
	})
}
