-- How far a service is, from MySQL and MariaDB: as sql/state.sql. As in PostgreSQL numbers are visible in another order than they were given,
-- so what is counted is counted from the beginning each time: the number returned to go on behind is 0.

-- name: emitted
SELECT event_type, COUNT(*), 0 FROM t_outbox_event WHERE id > :after GROUP BY event_type;

-- name: timers
SELECT e.event_type, COUNT(*) FROM t_outbox_delayed d JOIN t_outbox_event e ON e.id = d.id
WHERE d.due_at > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND GROUP BY e.event_type;

-- The newest checkpoint of the shop's one lane is read in place: through the views its text goes through temporary tables on the disk.

-- name: unpublished
SELECT (SELECT COUNT(*) FROM t_outbox_event WHERE id > (SELECT COALESCE(MIN(r.`cursor`), 0) FROM t_outbox_checkpoint c, JSON_TABLE(c.readers, '$[*]' COLUMNS (`cursor` BIGINT PATH '$.cursor')) r
    WHERE c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = 0 ORDER BY n.epoch DESC, n.number DESC LIMIT 1)))
  + (SELECT COUNT(DISTINCT e.id) FROM t_outbox_checkpoint c,
    JSON_TABLE(c.readers, '$[*]' COLUMNS (NESTED PATH '$.open[*]' COLUMNS (first_id BIGINT PATH '$[0]', last_id BIGINT PATH '$[1]'))) o
    JOIN t_outbox_event e ON e.id BETWEEN o.first_id AND o.last_id
    WHERE c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = 0 ORDER BY n.epoch DESC, n.number DESC LIMIT 1)
      AND e.id <= (SELECT COALESCE(MIN(r.`cursor`), 0) FROM t_outbox_checkpoint c, JSON_TABLE(c.readers, '$[*]' COLUMNS (`cursor` BIGINT PATH '$.cursor')) r
    WHERE c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = 0 ORDER BY n.epoch DESC, n.number DESC LIMIT 1)))
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
