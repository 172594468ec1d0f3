-- What every service's database tells, from PostgreSQL: as sql/service.sql, times made microseconds.

-- name: outbox
WITH sent AS (SELECT DISTINCT ON (id) id, partition, "offset", sent_at FROM v_outbox_sent ORDER BY id, sent_at)
SELECT o.event_id, o.causation_id, CAST(:service AS text) AS service, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_seq, o.payload,
  CASE WHEN s.id IS NOT NULL THEN 'SENT' WHEN k.passed_at IS NOT NULL THEN 'SKIPPED' WHEN p.dead THEN 'DEAD' WHEN p.id IS NOT NULL THEN 'PARKED' ELSE 'PENDING' END AS status,
  CAST(EXTRACT(EPOCH FROM o.appended_at) * 1000000 AS bigint) AS created_at, CAST(EXTRACT(EPOCH FROM o.not_before) * 1000000 AS bigint) AS not_before,
  CAST(EXTRACT(EPOCH FROM s.sent_at) * 1000000 AS bigint) AS sent_at, o.topic, s.partition AS broker_partition, s."offset" AS broker_offset
FROM t_outbox_event o LEFT JOIN sent s ON s.id = o.id LEFT JOIN t_outbox_parked p ON p.id = o.id LEFT JOIN settle_skip k ON k.event_id = o.event_id;

-- name: inbox
SELECT consumer_group AS consumer, event_id, status, aggregate_id, attempts, LPAD(TO_HEX(payload_hash), 16, '0') AS payload_hash, processed_no,
  CAST(EXTRACT(EPOCH FROM processed_at) * 1000000 AS bigint) AS processed_at
FROM t_message_consume_log;

-- name: retry_message
SELECT consumer_group AS consumer, event_id, attempts, COALESCE(CAST(EXTRACT(EPOCH FROM next_at) * 1000000 AS bigint), 0) AS next_at FROM t_consume_retry WHERE state <> 'DEAD';

-- name: dead_letter
SELECT id, CAST(:service AS text) AS service, consumer_group AS consumer, event_id, event_type, aggregate_id, class, reason, attempts, state,
  CAST(EXTRACT(EPOCH FROM opened_at) * 1000000 AS bigint) AS opened_at, CAST(EXTRACT(EPOCH FROM due_at) * 1000000 AS bigint) AS due_at,
  CAST(EXTRACT(EPOCH FROM closed_at) * 1000000 AS bigint) AS closed_at, closed_by
FROM t_dead_letter;

-- name: audit_log
SELECT CAST(:service AS text) AS service, seq, CAST(EXTRACT(EPOCH FROM at) * 1000000 AS bigint) AS at_us, actor, action, target, reason, prev_hash, hash AS row_hash FROM t_audit;
