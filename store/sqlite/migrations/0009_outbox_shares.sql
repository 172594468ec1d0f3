-- +goose Up
-- An event may go to several destinations, each of which is done with it at its
-- own time.

-- Those that a row is still to reach, JSON: [destination]. NULL: what destination
-- says, and for late rows where the routes lead.
ALTER TABLE t_outbox_delayed ADD COLUMN owed TEXT;
ALTER TABLE t_outbox_extra ADD COLUMN owed TEXT;

-- Of several parked rows and dead letters of an event the worst tells its status.
DROP VIEW v_outbox_event;
CREATE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
  unseen AS MATERIALIZED (SELECT destination, h.value AS id FROM v_outbox_reader, json_each(open) h)
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq,
  coalesce(e.biz_key, e.aggregate_id) AS biz_key, coalesce(e.trace_id, '') AS trace_id, coalesce(e.causation_id, '') AS causation_id,
  e.topic, e.version, e.content_type, coalesce(e.occurred_at, e.appended_at) AS occurred_at, e.appended_at, e.not_before,
  CASE
    WHEN p.dead = 1 THEN 'DEAD'
    WHEN p.attempts > 0 THEN 'RETRY'
    WHEN p.id IS NOT NULL THEN 'PENDING'
    WHEN s.passed_at IS NOT NULL OR d.state = 'DISCARDED' THEN 'DISCARDED'
    WHEN d.state IN ('OPEN', 'REPLAYING') THEN 'DEAD'
    WHEN t.id IS NOT NULL OR x.id IS NOT NULL THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND u.id = e.id) THEN 'SENT'
    ELSE 'PENDING'
  END AS status,
  coalesce(p.attempts, d.attempts, 0) AS attempts, p.next_at, coalesce(p.class, d.class, '') AS class, coalesce(p.cause, d.reason, '') AS cause,
  coalesce(t.due_at, e.not_before) AS due_at, e.headers, e.payload
FROM t_outbox_event e
LEFT JOIN t_outbox_parked p ON p.id = e.id
  AND NOT EXISTS (SELECT 1 FROM t_outbox_parked q WHERE q.id = p.id AND (q.dead, q.attempts, q.park_no) > (p.dead, p.attempts, p.park_no))
LEFT JOIN t_outbox_delayed t ON t.id = e.id
LEFT JOIN t_outbox_extra x ON x.id = e.id
LEFT JOIN settle_skip s ON s.event_id = e.event_id
LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id
  AND NOT EXISTS (SELECT 1 FROM t_dead_letter q WHERE q.consumer_group = '' AND q.event_id = d.event_id AND q.outbox_id = d.outbox_id
    AND (q.state IN ('OPEN', 'REPLAYING'), q.state = 'DISCARDED', q.id) > (d.state IN ('OPEN', 'REPLAYING'), d.state = 'DISCARDED', d.id))
LEFT JOIN reader m ON m.destination = ''
LEFT JOIN reader o ON o.destination = e.topic;

-- +goose Down
DROP VIEW v_outbox_event;
CREATE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
  unseen AS MATERIALIZED (SELECT destination, h.value AS id FROM v_outbox_reader, json_each(open) h)
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq,
  coalesce(e.biz_key, e.aggregate_id) AS biz_key, coalesce(e.trace_id, '') AS trace_id, coalesce(e.causation_id, '') AS causation_id,
  e.topic, e.version, e.content_type, coalesce(e.occurred_at, e.appended_at) AS occurred_at, e.appended_at, e.not_before,
  CASE
    WHEN p.dead = 1 THEN 'DEAD'
    WHEN p.attempts > 0 THEN 'RETRY'
    WHEN p.id IS NOT NULL THEN 'PENDING'
    WHEN s.passed_at IS NOT NULL OR d.state = 'DISCARDED' THEN 'DISCARDED'
    WHEN d.state IN ('OPEN', 'REPLAYING') THEN 'DEAD'
    WHEN t.id IS NOT NULL OR x.id IS NOT NULL THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND u.id = e.id) THEN 'SENT'
    ELSE 'PENDING'
  END AS status,
  coalesce(p.attempts, d.attempts, 0) AS attempts, p.next_at, coalesce(p.class, d.class, '') AS class, coalesce(p.cause, d.reason, '') AS cause,
  coalesce(t.due_at, e.not_before) AS due_at, e.headers, e.payload
FROM t_outbox_event e
LEFT JOIN t_outbox_parked p ON p.id = e.id
LEFT JOIN t_outbox_delayed t ON t.id = e.id
LEFT JOIN t_outbox_extra x ON x.id = e.id
LEFT JOIN settle_skip s ON s.event_id = e.event_id
LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id
LEFT JOIN reader m ON m.destination = ''
LEFT JOIN reader o ON o.destination = e.topic;
ALTER TABLE t_outbox_extra DROP COLUMN owed;
ALTER TABLE t_outbox_delayed DROP COLUMN owed;
