package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
	"github.com/settlemq/settle/store/consumelog"
)

// maxTrail bounds how many events one trail tells of: an aggregate may have a
// long life.
const maxTrail = 500

// logGroups names the groups of the consume log by one seek for each; OFFSET 0
// keeps the planner from joining whole tables to them.
const logGroups = `WITH RECURSIVE g(name) AS (
  SELECT min(consumer_group) FROM t_message_consume_log UNION ALL
  SELECT (SELECT min(consumer_group) FROM t_message_consume_log WHERE consumer_group > g.name) FROM g WHERE g.name IS NOT NULL) `

const resolveTrail = logGroups + `SELECT event_id FROM (
SELECT event_id FROM settle_outbox_row() WHERE aggregate_id = $1
UNION SELECT event_id FROM settle_outbox_row() WHERE biz_key = $1
UNION SELECT event_id FROM settle_outbox_row() WHERE event_id = $1
UNION SELECT event_id FROM settle_outbox_row() WHERE trace_id = $1
UNION ` + resolveElsewhere

const resolveElsewhere = `SELECT event_id FROM t_message_consume_log WHERE aggregate_id = $1
UNION SELECT l.event_id FROM g, LATERAL (SELECT event_id FROM t_message_consume_log WHERE consumer_group = g.name AND event_id = $1 OFFSET 0) l
UNION SELECT event_id FROM t_consume_retry WHERE biz_key = $1
UNION SELECT event_id FROM t_consume_retry WHERE trace_id = $1 AND trace_id <> ''
UNION SELECT event_id FROM t_dead_letter WHERE aggregate_id = $1
UNION SELECT event_id FROM t_dead_letter WHERE biz_key = $1
UNION SELECT event_id FROM t_dead_letter WHERE event_id = $1
UNION SELECT event_id FROM t_dead_letter WHERE trace_id = $1 AND trace_id <> ''
UNION SELECT event_id FROM t_half_message WHERE event_id = $1
UNION SELECT event_id FROM t_half_message WHERE aggregate_id = $1
UNION SELECT event_id FROM t_half_message WHERE biz_key = $1
UNION SELECT event_id FROM t_half_message WHERE trace_id = $1
UNION SELECT event_id FROM t_half_check WHERE event_id = $1 AND event_id <> ''
UNION SELECT event_id FROM t_half_check WHERE aggregate_id = $1 AND event_id <> ''
) found LIMIT $2`

// resolveTrailLean is the same where the outbox has no indexes to search by.
const resolveTrailLean = logGroups + `, d(name) AS (
  SELECT min(destination) FROM t_outbox_parked UNION ALL
  SELECT (SELECT min(destination) FROM t_outbox_parked WHERE destination > d.name) FROM d WHERE d.name IS NOT NULL)
SELECT event_id FROM (
SELECT event_id FROM settle_outbox_row() WHERE event_id = $1
UNION SELECT p.event_id FROM d, LATERAL (SELECT event_id FROM t_outbox_parked WHERE destination = d.name AND aggregate_id = $1 OFFSET 0) p
UNION ` + resolveElsewhere

// Unsearched implements govern.Partial: it is true of a lean layout.
func (g *Governance) Unsearched(ctx context.Context) (lean bool, err error) {
	err = g.s.view(ctx, func(tx pgx.Tx) (err error) {
		lean, err = g.lean(ctx, tx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for indexes of the outbox: %w", err)
	}
	return lean, nil
}

// lean reports whether an index is missing that the outbox is searched by. The
// indexes of an adopted table are its owner's, and it is searched all the same.
func (g *Governance) lean(ctx context.Context, tx pgx.Tx) (bool, error) {
	if g.s.adopted != nil {
		return false, nil
	}
	var n int
	err := tx.QueryRow(ctx, countSearchIndexes, searchIndexNames()).Scan(&n)
	return n < len(searchIndexNames()), err
}

// trail gathers what one snapshot of the database knows of some events.
type trail struct {
	tx     pgx.Tx
	events []string
	steps  []govern.Step
	// outbox holds the first step of events that began here, by event id.
	outbox map[string]govern.Step
}

// Trail implements govern.Trails.
func (g *Governance) Trail(ctx context.Context, id string) ([]govern.Step, error) {
	t := &trail{outbox: map[string]govern.Step{}}
	err := g.s.view(ctx, func(tx pgx.Tx) error {
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
		err = each(ctx, tx, []any{&event}, func() { t.events = append(t.events, event) }, query, fit(id), maxTrail)
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
		return nil, fmt.Errorf("read trail of %s: %w", id, err)
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

// stepRow is a step as its columns are read.
type stepRow struct {
	govern.Step
	at, next pgtype.Timestamptz
	// class, and status or act, where the table has one.
	class, word string
}

// step returns what was read, with the note made of class and cause if it has one.
func (r *stepRow) step(stage string) govern.Step {
	s := r.Step
	s.Stage, s.At = stage, instant(r.at)
	if r.class != "" {
		s.Note = r.class + ": " + s.Note
	}
	if r.next.Valid {
		due := instant(r.next)
		s.NextAt = &due
	}
	return s
}

const trailOutbox = `SELECT event_id, event_type, aggregate_id, coalesce(trace_id, ''), coalesce(causation_id, ''), appended_at, 'for topic ' || topic
FROM settle_outbox_row() WHERE event_id = ANY($1) ORDER BY id`

func (t *trail) appended(ctx context.Context) error {
	var r stepRow
	return each(ctx, t.tx, []any{&r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Causation, &r.at, &r.Note}, func() {
		s := r.step(govern.StageAppended)
		t.outbox[s.EventID] = s
		t.steps = append(t.steps, s)
	}, trailOutbox, t.events)
}

// The bounds let the index of the checkpoints find the few that may hold it.
const trailPublished = `SELECT o.event_id, s.sent_at, s.topic, s.partition, s."offset"
FROM settle_outbox_row() o JOIN v_outbox_sent s ON s.id = o.id AND s.first_id <= o.id AND s.last_id >= o.id
WHERE o.event_id = ANY($1)`

// published finds, in the checkpoints, where the broker has each event.
func (t *trail) published(ctx context.Context) error {
	var r stepRow
	return each(ctx, t.tx, []any{&r.EventID, &r.at, &r.Broker.Topic, &r.Broker.Partition, &r.Broker.Offset}, func() {
		t.steps = append(t.steps, r.step(govern.StagePublished))
	}, trailPublished, t.events)
}

const (
	trailParked = `SELECT o.event_id, p.attempts, p.next_at, p.class, p.cause, p.parked_at
FROM settle_outbox_row() o JOIN t_outbox_parked p ON p.id = o.id WHERE o.event_id = ANY($1) AND NOT p.dead`

	trailDelayed = `SELECT o.event_id, 0, d.due_at, 'delayed', 'by its producer', o.appended_at
FROM settle_outbox_row() o JOIN t_outbox_delayed d ON d.id = o.id WHERE o.event_id = ANY($1)`
)

func (t *trail) parkedAtRelay(ctx context.Context) error {
	for stage, query := range map[string]string{govern.StageParked: trailParked, govern.StageDelayed: trailDelayed} {
		var r stepRow
		err := each(ctx, t.tx, []any{&r.EventID, &r.Attempts, &r.next, &r.class, &r.Note, &r.at}, func() {
			t.steps = append(t.steps, r.step(stage))
		}, query, t.events)
		if err != nil {
			return err
		}
	}
	return nil
}

const trailLog = logGroups + `SELECT l.consumer_group, l.event_id, l.event_type, l.aggregate_id, l.status, l.attempts, l.processed_at, coalesce(l.reason, '')
FROM g, LATERAL (SELECT * FROM t_message_consume_log WHERE consumer_group = g.name AND event_id = ANY($1) OFFSET 0) l ORDER BY l.processed_no`

// consumed tells what ended; what waits or is dead has a row elsewhere.
func (t *trail) consumed(ctx context.Context) error {
	stages := map[string]string{
		consumelog.StatusApplied: govern.StageApplied, consumelog.StatusSuccess: govern.StageApplied, consumelog.StatusRejected: govern.StageRejected,
		consumelog.StatusCompensated: govern.StageCompensated, consumelog.StatusDuplicate: govern.StageDuplicate, consumelog.StatusSuperseded: govern.StageDiscarded,
		consumelog.StatusParked: "", consumelog.StatusDead: "", consumelog.StatusDiscarded: "",
	}
	var r stepRow
	return each(ctx, t.tx, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.word, &r.Attempts, &r.at, &r.Note}, func() {
		stage, ours := stages[r.word]
		if ours && stage == "" {
			return
		}
		s := r.step(stage)
		if !ours {
			s.Stage, s.Note = govern.StageParked, "left "+r.word+" by a foreign consumer"
		}
		t.steps = append(t.steps, s)
	}, trailLog, t.events)
}

const trailRetry = logGroups + `SELECT r.consumer_group, r.event_id, r.event_type, r.aggregate_id, r.trace_id, r.attempts, r.next_at, r.class, r.cause, r.parked_at,
r.topic, r.partition, r."offset"
FROM g, LATERAL (SELECT * FROM t_consume_retry WHERE consumer_group = g.name AND event_id = ANY($1) AND state = 'PARKED' OFFSET 0) r`

func (t *trail) waiting(ctx context.Context) error {
	var r stepRow
	return each(ctx, t.tx, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Attempts, &r.next, &r.class, &r.Note, &r.at,
		&r.Broker.Topic, &r.Broker.Partition, &r.Broker.Offset}, func() {
		t.steps = append(t.steps, r.step(govern.StageParked))
	}, trailRetry, t.events)
}

const trailLetters = `SELECT d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.trace_id, d.attempts, d.class, d.reason, d.opened_at, d.topic, d.partition, d."offset",
b.died_at, b.bridged_at, coalesce(b.before_id, 0) FROM t_dead_letter d LEFT JOIN t_bridged_letter b ON b.letter_id = d.id WHERE d.event_id = ANY($1) ORDER BY d.id`

func (t *trail) letters(ctx context.Context) error {
	var r stepRow
	var died, bridged pgtype.Timestamptz
	var before int64
	return each(ctx, t.tx, []any{&r.Group, &r.EventID, &r.EventType, &r.Key, &r.TraceID, &r.Attempts, &r.class, &r.Note, &r.at,
		&r.Broker.Topic, &r.Broker.Partition, &r.Broker.Offset, &died, &bridged, &before}, func() {
		s := r.step(govern.StageDead)
		if bridged.Valid {
			s.At, s.Note = bridgelog.Step(s.Group, s.Note, instant(died), instant(bridged), before)
		}
		t.steps = append(t.steps, s)
	}, trailLetters, t.events)
}

const trailActs = `SELECT d.event_id, d.consumer_group, d.event_type, d.aggregate_id, a.at, a.actor, a.action, a.reason
FROM t_dead_letter d JOIN t_audit a ON a.target = (CASE d.service_side WHEN 'relay' THEN 'relay' WHEN 'txmsg' THEN 'txmsg' ELSE d.consumer_group END) || ':' || d.event_id || (CASE d.service_side WHEN 'bridge' THEN '#' || d.id ELSE '' END)
WHERE d.event_id = ANY($1)
UNION ALL SELECT a.target, '', '', '', a.at, a.actor, a.action, a.reason FROM t_audit a WHERE a.target = ANY($1)`

func (t *trail) acts(ctx context.Context) error {
	stages := map[string]string{"dlq.replay": govern.StageReplay, "dlq.compensate": govern.StageCompensate, "dlq.discard": govern.StageDiscarded, "control.skip": govern.StageDiscarded, govern.ActionResend: govern.StageResend}
	var r stepRow
	return each(ctx, t.tx, []any{&r.EventID, &r.Group, &r.EventType, &r.Key, &r.at, &r.By, &r.word, &r.Note}, func() {
		if stage := stages[r.word]; stage != "" {
			t.steps = append(t.steps, r.step(stage))
		}
	}, trailActs, t.events)
}
