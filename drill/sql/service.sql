-- What every service's database tells: its outbox and what the relay noted of it, its consume log, retries, dead letters, audit chain.

-- name: outbox
-- What was sent stands in the checkpoints: {topic: [[id, partition, offset, microseconds since the checkpoint's time]]}.
-- Of an event that was acknowledged twice the first one counts.
WITH sent AS (
  SELECT CAST(e.value->>0 AS INTEGER) AS id, MIN(c.created_at + CAST(e.value->>3 AS INTEGER)) AS sent_at, e.value->>1 AS part, e.value->>2 AS off
  FROM t_outbox_checkpoint c, json_each(c.sent) t, json_each(t.value) e WHERE c.sent IS NOT NULL GROUP BY 1
)
SELECT o.event_id, o.causation_id, :service AS service, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_seq, o.payload,
  CASE WHEN s.id IS NOT NULL THEN 'SENT' WHEN k.passed_at IS NOT NULL THEN 'SKIPPED' WHEN p.dead = 1 THEN 'DEAD' WHEN p.id IS NOT NULL THEN 'PARKED' ELSE 'PENDING' END AS status,
  o.appended_at AS created_at, o.not_before, s.sent_at, o.topic, s.part AS broker_partition, s.off AS broker_offset
FROM t_outbox_event o LEFT JOIN sent s ON s.id = o.id LEFT JOIN t_outbox_parked p ON p.id = o.id LEFT JOIN settle_skip k ON k.event_id = o.event_id;

-- name: inbox
SELECT consumer_group AS consumer, event_id, status, aggregate_id, attempts, printf('%016x', payload_hash) AS payload_hash, processed_no, processed_at FROM t_message_consume_log;

-- name: retry_message
SELECT consumer_group AS consumer, event_id, attempts, COALESCE(next_at, 0) AS next_at FROM t_consume_retry WHERE state <> 'DEAD';

-- name: dead_letter
SELECT id, :service AS service, consumer_group AS consumer, event_id, event_type, aggregate_id, class, reason, attempts, state, opened_at, due_at, closed_at, closed_by FROM t_dead_letter;

-- name: audit_log
SELECT :service AS service, seq, at AS at_us, actor, action, target, reason, prev_hash, hash AS row_hash FROM t_audit;
