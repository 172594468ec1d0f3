-- +goose Up
-- Each event and its status: PENDING, SENT, RETRY, DEAD or DISCARDED, of
-- whatever table the events stand in. Where that has a status of its own, it
-- tells of what others have done: sent, given up, taken in hand (not sent yet),
-- or something that nobody sends.
CREATE OR REPLACE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
  unseen AS MATERIALIZED (SELECT destination, first_id, last_id FROM v_outbox_open)
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq,
  coalesce(e.biz_key, e.aggregate_id) AS biz_key, coalesce(e.trace_id, '') AS trace_id, coalesce(e.causation_id, '') AS causation_id,
  e.topic, e.version, e.content_type, coalesce(e.occurred_at, e.appended_at) AS occurred_at, e.appended_at, e.not_before,
  CASE
    WHEN p.dead THEN 'DEAD'
    WHEN p.attempts > 0 THEN 'RETRY'
    WHEN p.id IS NOT NULL THEN 'PENDING'
    WHEN s.passed_at IS NOT NULL OR d.state = 'DISCARDED' THEN 'DISCARDED'
    WHEN d.state IN ('OPEN', 'REPLAYING') THEN 'DEAD'
    WHEN t.id IS NOT NULL OR x.id IS NOT NULL THEN 'PENDING'
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.status_now IS NOT NULL AND e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
    ELSE 'PENDING'
  END AS status,
  coalesce(p.attempts, d.attempts, 0) AS attempts, p.next_at, coalesce(p.class, d.class, '') AS class, coalesce(p.cause, d.reason, '') AS cause,
  coalesce(t.due_at, e.not_before) AS due_at, e.headers, e.payload
FROM settle_outbox_row() e
LEFT JOIN t_outbox_parked p ON p.id = e.id
LEFT JOIN t_outbox_delayed t ON t.id = e.id
LEFT JOIN t_outbox_extra x ON x.id = e.id
LEFT JOIN settle_skip s ON s.event_id = e.event_id
LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id
LEFT JOIN reader m ON m.destination = ''
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '';

-- +goose Down
-- What was there before could only be of the schema's own table.
-- +goose StatementBegin
DO $do$
BEGIN
  IF to_regclass(format('%I.t_outbox_event', current_schema())) IS NULL THEN
    DROP VIEW v_outbox_event;
    RETURN;
  END IF;
  EXECUTE $v$
CREATE OR REPLACE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
  unseen AS MATERIALIZED (SELECT destination, first_id, last_id FROM v_outbox_open)
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq,
  coalesce(e.biz_key, e.aggregate_id) AS biz_key, coalesce(e.trace_id, '') AS trace_id, coalesce(e.causation_id, '') AS causation_id,
  e.topic, e.version, e.content_type, coalesce(e.occurred_at, e.appended_at) AS occurred_at, e.appended_at, e.not_before,
  CASE
    WHEN p.dead THEN 'DEAD'
    WHEN p.attempts > 0 THEN 'RETRY'
    WHEN p.id IS NOT NULL THEN 'PENDING'
    WHEN s.passed_at IS NOT NULL OR d.state = 'DISCARDED' THEN 'DISCARDED'
    WHEN d.state IN ('OPEN', 'REPLAYING') THEN 'DEAD'
    WHEN t.id IS NOT NULL OR x.id IS NOT NULL THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
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
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> ''
$v$;
END $do$;
-- +goose StatementEnd
