-- How far a service is, from MySQL and MariaDB: as sql/state.sql. As in PostgreSQL numbers are visible in another order than they were given,
-- so what is counted is counted from the beginning each time: the number returned to go on behind is 0.

-- name: emitted
SELECT event_type, COUNT(*), 0 FROM t_outbox_event WHERE id > :after GROUP BY event_type;

-- name: timers
SELECT e.event_type, COUNT(*) FROM t_outbox_delayed d JOIN t_outbox_event e ON e.id = d.id
WHERE d.due_at > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND GROUP BY e.event_type;

-- name: unpublished
WITH newest AS (SELECT COALESCE(MIN(`cursor`), 0) AS behind FROM v_outbox_reader)
SELECT (SELECT COUNT(*) FROM t_outbox_event WHERE id > (SELECT behind FROM newest))
  + (SELECT COUNT(*) FROM v_outbox_open o JOIN t_outbox_event e ON e.id BETWEEN o.first_id AND o.last_id WHERE e.id <= (SELECT behind FROM newest))
  + (SELECT COUNT(*) FROM t_outbox_parked) + (SELECT COUNT(*) FROM t_outbox_extra)
  + (SELECT COUNT(*) FROM t_outbox_delayed WHERE due_at <= TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND);

-- name: dead
SELECT COALESCE(SUM(state = 'OPEN'), 0), COALESCE(SUM(state IN ('REPLAYING', 'COMPENSATING')), 0), 0
FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING', 'COMPENSATING');

-- name: letters
SELECT id, class, event_type, aggregate_id, reason FROM t_dead_letter WHERE state = 'OPEN' ORDER BY id;

-- name: recorded
SELECT event_type, COUNT(*) FROM t_message_consume_log
WHERE consumer_group = :group AND processed_no > :after AND status NOT IN ('PARKED', 'DEAD', 'PROCESSING', 'FAILED') GROUP BY event_type;

-- name: pending
SELECT l.event_id, l.event_type, l.processed_no, true,
  l.status = 'DEAD' OR EXISTS (SELECT 1 FROM t_consume_retry d WHERE d.consumer_group = l.consumer_group AND d.aggregate_id = l.aggregate_id AND d.state = 'DEAD')
FROM t_message_consume_log l WHERE l.consumer_group = :group AND l.processed_no > :after AND l.status IN ('PARKED', 'DEAD', 'PROCESSING', 'FAILED');
