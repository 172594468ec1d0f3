-- How far a service is, cheaply enough to be asked several times a second while it works: but for what is open, only what is new is read.

-- name: emitted
SELECT event_type, COUNT(*), MAX(id) FROM t_outbox_event WHERE id > :after GROUP BY event_type;

-- name: timers
SELECT e.event_type, COUNT(*) FROM t_outbox_delayed d JOIN t_outbox_event e ON e.id = d.id WHERE d.due_at > :now GROUP BY e.event_type;

-- name: unpublished
-- What is above the cursor of the newest checkpoint, was in flight then, or stands in a side table, but for timers that are not due.
WITH newest AS (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1),
  at AS (SELECT MIN(r.value->>'cursor') AS cursor, SUM(COALESCE(json_array_length(r.value, '$.open'), 0)) AS open FROM newest, json_each(newest.readers) r)
SELECT (SELECT COUNT(*) FROM t_outbox_event WHERE id > COALESCE((SELECT cursor FROM at), 0)) + COALESCE((SELECT open FROM at), 0)
  + (SELECT COUNT(*) FROM t_outbox_parked) + (SELECT COUNT(*) FROM t_outbox_delayed WHERE due_at <= :now) + (SELECT COUNT(*) FROM t_outbox_extra);

-- name: dead
SELECT COALESCE(SUM(state = 'OPEN'), 0), COALESCE(SUM(state IN ('REPLAYING', 'COMPENSATING')), 0), (SELECT COALESCE(MAX(processed_no), 0) FROM t_message_consume_log)
FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING', 'COMPENSATING');

-- name: letters
SELECT id, class, event_type, aggregate_id, reason FROM t_dead_letter WHERE state = 'OPEN' ORDER BY id;

-- name: recorded
SELECT event_type, COUNT(*) FROM t_message_consume_log
WHERE consumer_group = :group AND processed_no > :after AND status NOT IN ('PARKED', 'DEAD', 'PROCESSING', 'FAILED') GROUP BY event_type;

-- name: pending
-- Held is what is a dead letter itself or comes behind one.
WITH waiting AS (SELECT event_id FROM t_message_consume_log WHERE consumer_group = :group AND processed_no > :after AND status IN ('PARKED', 'DEAD', 'PROCESSING', 'FAILED')
  UNION SELECT value FROM json_each(:known))
SELECT l.event_id, l.event_type, l.processed_no, l.status IN ('PARKED', 'DEAD', 'PROCESSING', 'FAILED'),
  l.status = 'DEAD' OR EXISTS (SELECT 1 FROM t_consume_retry d WHERE d.consumer_group = l.consumer_group AND d.aggregate_id = l.aggregate_id AND d.state = 'DEAD')
FROM waiting w JOIN t_message_consume_log l ON l.consumer_group = :group AND l.event_id = w.event_id;
