-- +goose NO TRANSACTION
-- +goose Up
-- How the outbox is divided among relays: each change of the number of lanes is
-- a generation. The relays of a generation begin when all lanes of the one
-- before have ended. Whoever orders one adds one to settle_control_version.
CREATE TABLE IF NOT EXISTS t_outbox_division (
  generation INT          NOT NULL PRIMARY KEY,
  lanes      INT          NOT NULL CHECK (lanes BETWEEN 1 AND 64),
  barrier    BIGINT       NOT NULL,                -- lanes of the generation before read up to it, and end
  ordered_by VARCHAR(191) NOT NULL,
  ordered_at DATETIME(6)  NOT NULL,
  begun_at   DATETIME(6)                           -- NULL: those before have not ended
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;
INSERT IGNORE INTO t_outbox_division VALUES (1, 1, 0, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6));

-- The lanes of all generations. No two have one number, so a lane's lease,
-- renewals and checkpoints are its own.
CREATE TABLE IF NOT EXISTS t_outbox_lane (
  lane       INT NOT NULL PRIMARY KEY,
  generation INT NOT NULL,
  lane_index INT NOT NULL,                         -- from 0 on, in its generation
  lanes      INT NOT NULL,                         -- of its generation
  UNIQUE KEY u_outbox_lane (generation, lane_index)
) ENGINE = InnoDB;
INSERT IGNORE INTO t_outbox_lane VALUES (0, 1, 0, 1);

-- A lane that has ended is never led again, nor by a program that knows of no
-- lanes: it would take the lease as one that was not given back. (MySQL knows no
-- IF NOT EXISTS of a column; here and below the statement is run if it is missing.)
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_lease' AND column_name = 'ended') > 0, 'DO 0',
  'ALTER TABLE t_outbox_lease ADD COLUMN ended BOOLEAN NOT NULL DEFAULT false, ADD CONSTRAINT c_outbox_lease_ended CHECK (clean OR NOT ended)');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;

-- How far apart the ids are whose coordinates a checkpoint keeps: spread n means
-- fewer than 16 to the power of n + 1. Of each spread only those that end near an
-- id can hold it.
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_checkpoint' AND column_name = 'spread') > 0, 'DO 0',
  'ALTER TABLE t_outbox_checkpoint ADD COLUMN spread INT GENERATED ALWAYS AS ((last_id - first_id >= 16) + (last_id - first_id >= 256) + (last_id - first_id >= 4096) + (last_id - first_id >= 65536) + (last_id - first_id >= 1048576) + (last_id - first_id >= 16777216) + (last_id - first_id >= 268435456)) VIRTUAL, ADD KEY i_outbox_checkpoint_spread (spread, last_id, first_id)');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;

-- The lanes that read now.
CREATE OR REPLACE VIEW v_outbox_lane AS
SELECT lane, lane_index, lanes FROM t_outbox_lane WHERE generation = (SELECT max(generation) FROM t_outbox_division WHERE begun_at IS NOT NULL);

-- The cursors of each lane's newest checkpoint. It is read in place: as a
-- column of a derived table its text would go through a table on the disk.
CREATE OR REPLACE VIEW v_outbox_lane_reader AS
SELECT l.lane_index, l.lanes, coalesce(r.destination, '') AS destination, r.`cursor`
FROM v_outbox_lane l JOIN t_outbox_checkpoint c ON c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = l.lane ORDER BY n.epoch DESC, n.number DESC LIMIT 1),
  JSON_TABLE(c.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination', `cursor` BIGINT PATH '$.cursor')) r;

-- What a lane has come to and not done yet.
CREATE OR REPLACE VIEW v_outbox_lane_open AS
SELECT l.lane_index, coalesce(o.destination, '') AS destination, o.first_id, o.last_id
FROM v_outbox_lane l JOIN t_outbox_checkpoint c ON c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = l.lane ORDER BY n.epoch DESC, n.number DESC LIMIT 1),
  JSON_TABLE(c.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination',
    NESTED PATH '$.open[*]' COLUMNS (first_id BIGINT PATH '$[0]', last_id BIGINT PATH '$[1]'))) o
WHERE o.first_id IS NOT NULL;

-- How far all lanes have come, for those who ask for less than SENT: by
-- destination the cursor of the lane that is behind, and what any has not done.
CREATE OR REPLACE VIEW v_outbox_reader AS
SELECT d.destination, min(coalesce(o.`cursor`, m.`cursor`)) AS `cursor`
FROM (SELECT DISTINCT destination FROM v_outbox_lane_reader) d
JOIN v_outbox_lane_reader m ON m.destination = ''
LEFT JOIN v_outbox_lane_reader o ON o.lane_index = m.lane_index AND o.destination = d.destination
GROUP BY d.destination;
CREATE OR REPLACE VIEW v_outbox_open AS
SELECT DISTINCT d.destination, u.first_id, u.last_id
FROM (SELECT DISTINCT destination FROM v_outbox_lane_reader) d
JOIN v_outbox_lane_reader m ON m.destination = ''
LEFT JOIN v_outbox_lane_reader o ON o.lane_index = m.lane_index AND o.destination = d.destination
JOIN v_outbox_lane_open u ON u.lane_index = m.lane_index AND u.destination = coalesce(o.destination, m.destination);

-- Each event and its status: what the lane that owns its key has done with it.
CREATE OR REPLACE VIEW v_outbox_event AS
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

-- +goose Down
-- One lane can be read by a program that knows of no lanes: it goes on where
-- that lane has come to. (From several lanes there is no way down.)
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'v_outbox_lane') > 0,
  'INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at) SELECT 0, (SELECT max(x.epoch) FROM t_outbox_checkpoint x) + 1, c.number, c.readers, UTC_TIMESTAMP(6) FROM v_outbox_lane l JOIN t_outbox_checkpoint c ON c.seq = (SELECT n.seq FROM t_outbox_checkpoint n WHERE n.lane = l.lane ORDER BY n.epoch DESC, n.number DESC LIMIT 1) WHERE l.lane > 0', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
DELETE FROM t_outbox_lease WHERE lane > 0;
CREATE OR REPLACE VIEW v_outbox_event AS
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
    WHEN e.id <= coalesce(o.`cursor`, m.`cursor`, 0)
      AND NOT EXISTS (SELECT 1 FROM v_outbox_open u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id) THEN 'SENT'
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
LEFT JOIN v_outbox_reader m ON m.destination = ''
LEFT JOIN v_outbox_reader o ON o.destination = e.topic AND o.destination <> '';
CREATE OR REPLACE VIEW v_outbox_open AS
SELECT coalesce(o.destination, '') AS destination, o.first_id, o.last_id
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  JSON_TABLE(newest.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination',
    NESTED PATH '$.open[*]' COLUMNS (first_id BIGINT PATH '$[0]', last_id BIGINT PATH '$[1]'))) o
WHERE o.first_id IS NOT NULL;
CREATE OR REPLACE VIEW v_outbox_reader AS
SELECT coalesce(r.destination, '') AS destination, r.`cursor`
FROM (SELECT readers FROM t_outbox_checkpoint WHERE lane = 0 ORDER BY epoch DESC, number DESC LIMIT 1) newest,
  JSON_TABLE(newest.readers, '$[*]' COLUMNS (destination VARCHAR(191) CHARACTER SET utf8mb4 COLLATE settle_exact PATH '$.destination', `cursor` BIGINT PATH '$.cursor')) r;
DROP VIEW IF EXISTS v_outbox_lane_open;
DROP VIEW IF EXISTS v_outbox_lane_reader;
DROP VIEW IF EXISTS v_outbox_lane;
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_checkpoint' AND column_name = 'spread') > 0,
  'ALTER TABLE t_outbox_checkpoint DROP KEY i_outbox_checkpoint_spread, DROP COLUMN spread', 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
SET @settle_ddl = IF((SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't_outbox_lease' AND column_name = 'ended') > 0,
  IF(VERSION() REGEXP '^8[.]0[.]1[678]([^0-9]|$)', 'ALTER TABLE t_outbox_lease DROP CHECK c_outbox_lease_ended, DROP COLUMN ended', 'ALTER TABLE t_outbox_lease DROP CONSTRAINT c_outbox_lease_ended, DROP COLUMN ended'), 'DO 0');
PREPARE settle_ddl FROM @settle_ddl;
EXECUTE settle_ddl;
DEALLOCATE PREPARE settle_ddl;
DROP TABLE IF EXISTS t_outbox_lane;
DROP TABLE IF EXISTS t_outbox_division;
