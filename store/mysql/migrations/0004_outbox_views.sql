-- +goose NO TRANSACTION
-- +goose Up
-- What people see of the outbox. Nothing of it is stored: it follows from the
-- newest checkpoint and the side tables, so it is true at each commit.

-- The cursors of the newest checkpoint.
CREATE OR REPLACE VIEW v_outbox_reader AS
SELECT coalesce(r.destination, '') AS destination, r.`cursor`
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  JSON_TABLE(newest.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination', `cursor` BIGINT PATH '$.cursor')) r;

-- What is at or below a cursor and not done yet.
CREATE OR REPLACE VIEW v_outbox_open AS
SELECT coalesce(o.destination, '') AS destination, o.first_id, o.last_id
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  JSON_TABLE(newest.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination',
    NESTED PATH '$.open[*]' COLUMNS (first_id BIGINT PATH '$[0]', last_id BIGINT PATH '$[1]'))) o
WHERE o.first_id IS NOT NULL;

-- Each event and its status: PENDING, SENT, RETRY, DEAD or DISCARDED.
CREATE OR REPLACE VIEW v_outbox_event AS
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
    WHEN e.id <= coalesce(o.`cursor`, m.`cursor`, 0)
      AND NOT EXISTS (SELECT 1 FROM v_outbox_open u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
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
LEFT JOIN v_outbox_reader m ON m.destination = ''
LEFT JOIN v_outbox_reader o ON o.destination = e.topic AND o.destination <> '';

-- Where the broker has each event that was acknowledged. To find one, bound
-- the search: id = ? AND first_id <= ? AND last_id >= ?.
CREATE OR REPLACE VIEW v_outbox_sent AS
SELECT c.first_id + g.id AS id, g.topic, g.`partition`, g.`offset` + g.nth - 1 AS `offset`,
  c.created_at + INTERVAL g.after_us MICROSECOND AS sent_at, c.first_id, c.last_id, c.epoch
FROM t_outbox_checkpoint c,
  JSON_TABLE(c.sent, '$[*]' COLUMNS (topic VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$[0]', `partition` INT PATH '$[1]', `offset` BIGINT PATH '$[2]', after_us BIGINT PATH '$[3]',
    NESTED PATH '$[4][*]' COLUMNS (nth FOR ORDINALITY, id BIGINT PATH '$'))) g
WHERE c.last_id IS NOT NULL;

-- +goose Down
DROP VIEW IF EXISTS v_outbox_sent;
DROP VIEW IF EXISTS v_outbox_event;
DROP VIEW IF EXISTS v_outbox_open;
DROP VIEW IF EXISTS v_outbox_reader;
