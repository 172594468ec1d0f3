-- +goose NO TRANSACTION
-- +goose Up
-- Here is what stands in the file of this name, from "-- An event may go" to "    WHEN t.id IS NOT NULL".
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
-- Here is what stands in the file of this name, from "    WHEN e.id <= coalesce(o.`cursor`" to "-- +goose Down".
-- Here is what stands in the file of this name, from "-- The view as it was" to "    WHEN t.id IS NOT NULL".
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
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
