-- +goose Up
-- What people see of the outbox. Nothing of it is stored: it follows from the
-- newest checkpoint and the side tables, so it is true at each commit.

-- The cursors of the newest checkpoint.
CREATE VIEW v_outbox_reader AS
SELECT coalesce(r.value ->> 'destination', '') AS destination, (r.value ->> 'cursor')::bigint AS cursor, r.value -> 'open' AS open
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  json_array_elements(newest.readers) r;

-- What is at or below a cursor and not done yet.
CREATE VIEW v_outbox_open AS
SELECT r.destination,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 0)::bigint ELSE (o.value #>> '{}')::bigint END AS first_id,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 1)::bigint ELSE (o.value #>> '{}')::bigint END AS last_id
FROM v_outbox_reader r, json_array_elements(r.open) o;

-- Each event and its status: PENDING, SENT, RETRY, DEAD or DISCARDED.
CREATE VIEW v_outbox_event AS
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
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '';

-- Where the broker has each event that was acknowledged. To find one, bound
-- the search: id = ? AND first_id <= ? AND last_id >= ?.
CREATE VIEW v_outbox_sent AS
SELECT c.first_id + (i.value #>> '{}')::bigint AS id, t.key AS topic, (g.value ->> 0)::integer AS partition, (g.value ->> 1)::bigint + i.nth - 1 AS "offset",
  c.created_at + (g.value ->> 2)::bigint * interval '1 microsecond' AS sent_at, c.first_id, c.last_id, c.epoch
FROM t_outbox_checkpoint c, json_each(c.sent) t, json_array_elements(t.value) g, json_array_elements(g.value -> 3) WITH ORDINALITY i(value, nth)
WHERE c.last_id IS NOT NULL;

-- +goose Down
DROP VIEW v_outbox_sent;
DROP VIEW v_outbox_event;
DROP VIEW v_outbox_open;
DROP VIEW v_outbox_reader;
