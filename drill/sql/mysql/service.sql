-- What every service's database tells, from MySQL and MariaDB: as sql/service.sql, times made microseconds.

-- name: outbox
WITH sent AS (
  SELECT id, `partition`, `offset`, sent_at FROM (
    SELECT id, `partition`, `offset`, sent_at, ROW_NUMBER() OVER (PARTITION BY id ORDER BY sent_at) AS nth FROM v_outbox_sent) every WHERE nth = 1
)
SELECT o.event_id, o.causation_id, :service AS service, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_seq, o.payload,
  CASE WHEN s.id IS NOT NULL THEN 'SENT' WHEN k.passed_at IS NOT NULL THEN 'SKIPPED' WHEN p.dead THEN 'DEAD' WHEN p.id IS NOT NULL THEN 'PARKED' ELSE 'PENDING' END AS status,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.appended_at) AS created_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.not_before) AS not_before,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s.sent_at) AS sent_at, o.topic, s.`partition` AS broker_partition, s.`offset` AS broker_offset
FROM t_outbox_event o LEFT JOIN sent s ON s.id = o.id LEFT JOIN t_outbox_parked p ON p.id = o.id LEFT JOIN settle_skip k ON k.event_id = o.event_id;

-- name: inbox
SELECT consumer_group AS consumer, event_id, status, aggregate_id, attempts, LOWER(LPAD(HEX(payload_hash), 16, '0')) AS payload_hash, processed_no,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', processed_at) AS processed_at
FROM t_message_consume_log;

-- name: retry_message
SELECT consumer_group AS consumer, event_id, attempts, COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', next_at), 0) AS next_at FROM t_consume_retry WHERE state <> 'DEAD';

-- name: dead_letter
SELECT id, :service AS service, consumer_group AS consumer, event_id, event_type, aggregate_id, class, reason, attempts, state,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', opened_at) AS opened_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', due_at) AS due_at,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', closed_at) AS closed_at, closed_by
FROM t_dead_letter;

-- name: audit_log
SELECT :service AS service, seq, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `at`) AS at_us, actor, action, target, reason, prev_hash, hash AS row_hash FROM t_audit;
