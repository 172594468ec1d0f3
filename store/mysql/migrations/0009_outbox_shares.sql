-- +goose NO TRANSACTION
-- +goose Up
-- An event may go to several destinations, each of which is done with it at its
-- own time.

-- Those that a row is still to reach, JSON: [destination]. NULL: what destination
-- says, and for late rows where the routes lead.
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_delayed' AND column_name = 'owed') = 0,
  'ALTER TABLE t_outbox_delayed ADD COLUMN owed TEXT', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_extra' AND column_name = 'owed') = 0,
  'ALTER TABLE t_outbox_extra ADD COLUMN owed TEXT', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;

-- Of several parked rows and dead letters of an event the worst tells its status.
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
      AND NOT EXISTS (SELECT 1 FROM v_outbox_lane_open u WHERE u.lane_index = m.lane_index AND u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
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
LEFT JOIN v_outbox_lane_reader m ON m.destination = ''
  AND m.lane_index = IF(m.lanes = 1, 0, CAST(CONV(LEFT(MD5(IF(coalesce(LENGTH(e.aggregate_id), 0) = 0, CONCAT('#', e.id), e.aggregate_id)), 8), 16, 10) AS UNSIGNED) % m.lanes)
LEFT JOIN v_outbox_lane_reader o ON o.destination = e.topic AND o.destination <> '' AND o.lane_index = m.lane_index;

-- +goose Down
-- The view as it was.
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
      AND NOT EXISTS (SELECT 1 FROM v_outbox_lane_open u WHERE u.lane_index = m.lane_index AND u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
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
LEFT JOIN v_outbox_lane_reader m ON m.destination = ''
  AND m.lane_index = IF(m.lanes = 1, 0, CAST(CONV(LEFT(MD5(IF(coalesce(LENGTH(e.aggregate_id), 0) = 0, CONCAT('#', e.id), e.aggregate_id)), 8), 16, 10) AS UNSIGNED) % m.lanes)
LEFT JOIN v_outbox_lane_reader o ON o.destination = e.topic AND o.destination <> '' AND o.lane_index = m.lane_index;
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_extra' AND column_name = 'owed') > 0,
  'ALTER TABLE t_outbox_extra DROP COLUMN owed', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_delayed' AND column_name = 'owed') > 0,
  'ALTER TABLE t_outbox_delayed DROP COLUMN owed', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
