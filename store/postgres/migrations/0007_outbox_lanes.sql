-- +goose Up
-- How the outbox is divided among relays: each change of the number of lanes is
-- a generation. No two lanes, of whatever generations, have one number, so a
-- lane's lease, renewals and checkpoints are its own. The relays of a generation
-- begin when all lanes of the one before have ended.
CREATE TABLE t_outbox_division (
  generation integer     PRIMARY KEY,
  first_lane integer     NOT NULL,                 -- its lanes are first_lane to first_lane + lanes - 1
  lanes      integer     NOT NULL CHECK (lanes BETWEEN 1 AND 64),
  barrier    bigint      NOT NULL,                 -- lanes of the generation before read up to it, and end
  ordered_by text        NOT NULL,
  ordered_at timestamptz NOT NULL,
  begun_at   timestamptz                           -- NULL: those before have not ended
);
INSERT INTO t_outbox_division VALUES (1, 0, 1, 0, '', now(), now());
CREATE TRIGGER outbox_is_divided AFTER INSERT ON t_outbox_division FOR EACH ROW EXECUTE FUNCTION settle_control_changed();

-- A lane that has ended is never led again, nor by a program that knows of no
-- lanes: it would take the lease as one that was not given back.
ALTER TABLE t_outbox_lease ADD COLUMN ended boolean NOT NULL DEFAULT false CHECK (clean OR NOT ended);

-- The lane of a row among so many, by its order key; a row without one is alone
-- with its own.
-- +goose StatementBegin
CREATE FUNCTION settle_lane(id bigint, key text, lanes integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN lanes <= 1 THEN 0
  ELSE (('x' || substr(md5(CASE WHEN coalesce(key, '') = '' THEN '#' || id::text ELSE key END), 1, 8))::bit(32)::bigint % lanes)::integer END $$;
-- +goose StatementEnd

-- The lanes that read now. It is a function so that the server takes them for
-- as few as they are: taking them for a thousand it would plan for millions of
-- readers, and compile what runs for a moment.
-- +goose StatementBegin
CREATE FUNCTION settle_lanes() RETURNS TABLE (lane integer, lane_index integer, lanes integer) LANGUAGE plpgsql STABLE ROWS 1 SET search_path FROM CURRENT AS $$
BEGIN
  RETURN QUERY SELECT d.first_lane + i, i, d.lanes
  FROM (SELECT t.first_lane, t.lanes FROM t_outbox_division t WHERE t.begun_at IS NOT NULL ORDER BY t.generation DESC LIMIT 1) d, generate_series(0, d.lanes - 1) i;
END $$;
-- +goose StatementEnd
CREATE VIEW v_outbox_lane AS SELECT lane, lane_index, lanes FROM settle_lanes();

-- The cursors of each lane's newest checkpoint.
CREATE VIEW v_outbox_lane_reader AS
SELECT l.lane_index, l.lanes, coalesce(r.value ->> 'destination', '') AS destination, (r.value ->> 'cursor')::bigint AS cursor, r.value -> 'open' AS open
FROM v_outbox_lane l
CROSS JOIN LATERAL (SELECT readers FROM t_outbox_checkpoint c WHERE c.lane = l.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1) newest
CROSS JOIN LATERAL json_array_elements(newest.readers) r;

-- What a lane has come to and not done yet.
CREATE VIEW v_outbox_lane_open AS
SELECT r.lane_index, r.lanes, r.destination,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 0)::bigint ELSE (o.value #>> '{}')::bigint END AS first_id,
  CASE json_typeof(o.value) WHEN 'array' THEN (o.value ->> 1)::bigint ELSE (o.value #>> '{}')::bigint END AS last_id
FROM v_outbox_lane_reader r, json_array_elements(r.open) o;

-- How far all lanes have come, for those who ask for less than SENT: by
-- destination the cursor of the lane that is behind, and what any has not done.
CREATE OR REPLACE VIEW v_outbox_reader AS
SELECT destination, cursor, open FROM v_outbox_lane_reader WHERE lanes = 1
UNION ALL
SELECT d.destination, min(coalesce(o.cursor, m.cursor)), (SELECT coalesce(json_agg(e.value), '[]')
  FROM v_outbox_lane_reader om LEFT JOIN v_outbox_lane_reader oo ON oo.lane_index = om.lane_index AND oo.destination = d.destination,
    json_array_elements(coalesce(oo.open, om.open)) e WHERE om.destination = '')
FROM (SELECT DISTINCT destination FROM v_outbox_lane_reader WHERE lanes > 1) d
JOIN v_outbox_lane_reader m ON m.destination = ''
LEFT JOIN v_outbox_lane_reader o ON o.lane_index = m.lane_index AND o.destination = d.destination
GROUP BY d.destination;

-- Each event and its status: what the lane that owns its key has done with it.
CREATE OR REPLACE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT lane_index, lanes, destination, cursor FROM v_outbox_lane_reader),
  unseen AS MATERIALIZED (SELECT lane_index, destination, first_id, last_id FROM v_outbox_lane_open)
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
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.status_now IS NOT NULL AND e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.lane_index = m.lane_index AND u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
    ELSE 'PENDING'
  END AS status,
  coalesce(p.attempts, d.attempts, 0) AS attempts, p.next_at, coalesce(p.class, d.class, '') AS class, coalesce(p.cause, d.reason, '') AS cause,
  coalesce(t.due_at, e.not_before) AS due_at, e.headers, e.payload
FROM settle_outbox_row() e
LEFT JOIN t_outbox_parked p ON p.id = e.id
LEFT JOIN t_outbox_delayed t ON t.id = e.id
LEFT JOIN t_outbox_extra x ON x.id = e.id
LEFT JOIN settle_skip s ON s.event_id = e.event_id
LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id
LEFT JOIN reader m ON m.destination = '' AND m.lane_index = settle_lane(e.id, e.aggregate_id, m.lanes)
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '' AND o.lane_index = settle_lane(e.id, e.aggregate_id, o.lanes);

-- +goose Down
-- One lane can be read by a program that knows of no lanes: it goes on where
-- that lane has come to.
-- +goose StatementBegin
DO $do$
BEGIN
  IF EXISTS (SELECT 1 FROM t_outbox_division WHERE begun_at IS NULL) OR (SELECT count(*) FROM v_outbox_lane) > 1 THEN
    RAISE EXCEPTION 'the outbox is read by several lanes; order one by `settle outbox lanes SERVICE 1`, and wait until it reads';
  END IF;
  INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at)
  SELECT 0, (SELECT max(epoch) FROM t_outbox_checkpoint) + 1, c.number, c.readers, now() FROM v_outbox_lane l
  CROSS JOIN LATERAL (SELECT number, readers FROM t_outbox_checkpoint c WHERE c.lane = l.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1) c WHERE l.lane > 0;
  DELETE FROM t_outbox_lease WHERE lane > 0;
END $do$;
-- +goose StatementEnd
CREATE OR REPLACE VIEW v_outbox_event AS
WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
  unseen AS MATERIALIZED (SELECT destination, first_id, last_id FROM v_outbox_open)
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
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.status_now IS NOT NULL AND e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
    WHEN e.id <= coalesce(o.cursor, m.cursor, 0)
      AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
    ELSE 'PENDING'
  END AS status,
  coalesce(p.attempts, d.attempts, 0) AS attempts, p.next_at, coalesce(p.class, d.class, '') AS class, coalesce(p.cause, d.reason, '') AS cause,
  coalesce(t.due_at, e.not_before) AS due_at, e.headers, e.payload
FROM settle_outbox_row() e
LEFT JOIN t_outbox_parked p ON p.id = e.id
LEFT JOIN t_outbox_delayed t ON t.id = e.id
LEFT JOIN t_outbox_extra x ON x.id = e.id
LEFT JOIN settle_skip s ON s.event_id = e.event_id
LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id
LEFT JOIN reader m ON m.destination = ''
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '';
CREATE OR REPLACE VIEW v_outbox_reader AS
SELECT coalesce(r.value ->> 'destination', '') AS destination, (r.value ->> 'cursor')::bigint AS cursor, r.value -> 'open' AS open
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  json_array_elements(newest.readers) r;
DROP VIEW v_outbox_lane_open;
DROP VIEW v_outbox_lane_reader;
DROP VIEW v_outbox_lane;
DROP FUNCTION settle_lanes;
DROP FUNCTION settle_lane;
ALTER TABLE t_outbox_lease DROP COLUMN ended;
DROP TABLE t_outbox_division;
