-- +goose Up
-- What people see of the outbox. Nothing of it is stored: it follows from the
-- newest checkpoint and the side tables, so it is true at each commit.

-- The cursors of the newest checkpoint.
CREATE VIEW v_outbox_reader AS
SELECT coalesce(r.value ->> 'destination', '') AS destination, (r.value ->> 'cursor')::bigint AS cursor, r.value -> 'open' AS open
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  json_array_elements(newest.readers) r;

-- What is at or below a cursor and not done yet.
CREATE VIEW v_outbox_open AS
SELECT r.destination,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 0)::bigint ELSE (o.value #>> '{}')::bigint END AS first_id,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 1)::bigint ELSE (o.value #>> '{}')::bigint END AS last_id
FROM v_outbox_reader r, json_array_elements(r.open) o;

-- Where the broker has each event that was acknowledged. To find one, bound
-- the search: id = ? AND first_id <= ? AND last_id >= ?.
CREATE VIEW v_outbox_sent AS
SELECT c.first_id + (i.value #>> '{}')::bigint AS id, t.key AS topic, (g.value ->> 0)::integer AS partition, (g.value ->> 1)::bigint + i.nth - 1 AS "offset",
  c.created_at + (g.value ->> 2)::bigint * interval '1 microsecond' AS sent_at, c.first_id, c.last_id, c.epoch
FROM t_outbox_checkpoint c, json_each(c.sent) t, json_array_elements(t.value) g, json_array_elements(g.value -> 3) WITH ORDINALITY i(value, nth)
WHERE c.last_id IS NOT NULL;

-- +goose Down
DROP VIEW v_outbox_sent;
DROP VIEW v_outbox_open;
DROP VIEW v_outbox_reader;
