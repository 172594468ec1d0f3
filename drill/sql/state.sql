-- How far a service is, cheaply enough to be asked several times a second while it works.

-- name: orders
SELECT COUNT(*), COALESCE(SUM(status = 'RESERVED'), 0), COALESCE(SUM(status = 'CANCELLED'), 0) FROM t_order;

-- name: unpublished
-- What is above the cursor of the newest checkpoint, was in flight then, or stands in a side table.
WITH newest AS (SELECT readers FROM t_outbox_checkpoint ORDER BY epoch DESC, number DESC LIMIT 1),
  at AS (SELECT MIN(r.value->>'cursor') AS cursor, SUM(COALESCE(json_array_length(r.value, '$.open'), 0)) AS open FROM newest, json_each(newest.readers) r)
SELECT (SELECT COUNT(*) FROM t_outbox_event WHERE id > COALESCE((SELECT cursor FROM at), 0)) + COALESCE((SELECT open FROM at), 0)
  + (SELECT COUNT(*) FROM t_outbox_parked) + (SELECT COUNT(*) FROM t_outbox_delayed) + (SELECT COUNT(*) FROM t_outbox_extra);

-- name: dead
SELECT COALESCE(SUM(state = 'OPEN'), 0), COALESCE(SUM(state = 'REPLAYING'), 0) FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING');

-- name: emitted
SELECT COUNT(*) FROM t_outbox_event WHERE event_type IN (SELECT value FROM json_each(:types));

-- name: consumed
SELECT COUNT(*) FROM t_message_consume_log WHERE consumer_group = :group AND status NOT IN ('PARKED', 'DEAD') AND event_type IN (SELECT value FROM json_each(:types));
