-- +goose NO TRANSACTION
-- +goose Up
-- Each statement that changes the schema is committed by itself here, so each
-- can be run again. Text is compared byte by byte (COLLATE settle_exact becomes
-- the name that this server has for that): keys that differ in case, accents or
-- trailing space are different keys. Times are UTC.

-- How the table of another owner is read as the outbox; one row, made before
-- anything else. Nothing is made in its database, or altered there.
CREATE TABLE IF NOT EXISTS settle_adoption (
  one             INT         NOT NULL PRIMARY KEY CHECK (one = 1),
  decided         LONGTEXT    NOT NULL,            -- JSON: table, columns, zone, payload, topics, statuses, projection
  high_id         BIGINT,                          -- highest id when it was adopted; NULL: not looked yet
  listed_id       BIGINT      NOT NULL DEFAULT 0,  -- how far what waits was listed
  begun_at        DATETIME(6) NOT NULL,
  adopted_at      DATETIME(6),                     -- NULL: not finished
  foreign_id      BIGINT      NOT NULL DEFAULT 0,  -- highest id seen that another relay has sent or holds
  foreign_rows    BIGINT      NOT NULL DEFAULT 0,  -- how many of them were seen
  foreign_seen_at DATETIME(6)                      -- when the last one was
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Rows whose status could not be written when it changed, because somebody held
-- them: what it is to be.
CREATE TABLE IF NOT EXISTS t_outbox_projection (
  id       BIGINT      NOT NULL PRIMARY KEY,
  status   VARCHAR(16) NOT NULL,                   -- SENT, RETRY, DEAD
  attempts INT         NOT NULL,
  next_at  DATETIME(6),
  cause    MEDIUMTEXT  NOT NULL,
  noted_at DATETIME(6) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Through these two the rest reads the table. They are empty until it is looked
-- at; then the columns that it has decide their text. t_outbox_event are all its
-- rows in the shape of an outbox of our own, settle_outbox_log those that are
-- read as a log.
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW t_outbox_event AS
SELECT CAST(NULL AS SIGNED) AS id, CAST(NULL AS CHAR(191)) AS event_id, NULL AS event_type, NULL AS aggregate_type, CAST(NULL AS CHAR(191)) AS aggregate_id, 0 AS aggregate_seq,
  NULL AS biz_key, NULL AS trace_id, NULL AS causation_id, NULL AS supersedes, CAST(NULL AS CHAR(191)) AS topic, 1 AS version, NULL AS content_type,
  CAST(NULL AS DATETIME(6)) AS occurred_at, CAST(NULL AS DATETIME(6)) AS appended_at, CAST(NULL AS DATETIME(6)) AS not_before, NULL AS headers, NULL AS payload,
  NULL AS status_now FROM settle_adoption WHERE false;
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW settle_outbox_log AS
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq, e.biz_key, e.trace_id, e.causation_id, e.supersedes, e.topic, e.version,
  e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload FROM t_outbox_event e;

-- Who leads each lane. The epoch is the fence: it rises with each takeover, and
-- each of the leader's writes holds the row for share. Renewals are rows of
-- settle_renewal, so that the row is changed only when a leader comes or goes.
CREATE TABLE IF NOT EXISTS t_outbox_lease (
  lane     INT          NOT NULL PRIMARY KEY,
  owner    VARCHAR(191) NOT NULL,
  epoch    BIGINT       NOT NULL,
  clean    BOOLEAN      NOT NULL,                  -- given back by its owner
  deaths   INT          NOT NULL,                  -- leaders in a row that ended without giving it back, each soon after it took over
  taken_at DATETIME(6)  NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Renewals of leases: insert-only, the newest is max(epoch), then
-- max(renewal_no). scope and name say what is leased.
CREATE TABLE IF NOT EXISTS settle_renewal (
  renewal_no BIGINT       NOT NULL AUTO_INCREMENT,
  scope      VARCHAR(64)  NOT NULL,
  name       VARCHAR(191) NOT NULL,
  epoch      BIGINT       NOT NULL,
  owner      VARCHAR(191) NOT NULL,
  expires_at DATETIME(6)  NOT NULL,
  PRIMARY KEY (scope, name, epoch, renewal_no),
  KEY i_renewal_no (renewal_no)                    -- what gives the numbers
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- How far the relay has come: insert-only, the newest is max(epoch), then
-- max(number). In open, [a, b] stands for all ids from a to b.
CREATE TABLE IF NOT EXISTS t_outbox_checkpoint (
  seq        BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  lane       INT         NOT NULL,
  epoch      BIGINT      NOT NULL,
  number     BIGINT      NOT NULL,
  readers    LONGTEXT    NOT NULL,                 -- [{destination, cursor, cursor_event, open}]
  first_id   BIGINT,                               -- lowest and highest id in sent
  last_id    BIGINT,
  sent       LONGTEXT,                             -- [[topic, partition, offset of the first, sent_at - created_at in us, [id - first_id, …]]], offsets rise by one
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY u_outbox_checkpoint (lane, epoch, number),
  KEY i_outbox_checkpoint_ids (last_id, first_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Rows of blocked keys: the head that failed and all that came behind it.
CREATE TABLE IF NOT EXISTS t_outbox_parked (
  park_no       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY, -- order of arrival; the lowest of a key is its head
  destination   VARCHAR(191) NOT NULL,
  aggregate_id  VARCHAR(191) NOT NULL,
  id            BIGINT       NOT NULL,             -- t_outbox_event.id
  event_id      VARCHAR(191) NOT NULL,
  event_type    VARCHAR(191) NOT NULL,
  message_id    VARCHAR(255) NOT NULL DEFAULT '',  -- '': the event id
  attempts      INT          NOT NULL,
  next_at       DATETIME(6),                       -- NULL: as soon as it is the head
  class         VARCHAR(64)  NOT NULL,
  cause         MEDIUMTEXT   NOT NULL,
  suspect       BOOLEAN      NOT NULL DEFAULT false, -- was in doubt when a process died
  tried_together INT         NOT NULL DEFAULT 0,    -- how many suspects its last recorded try had; 0: it was not tried as one
  dead          BOOLEAN      NOT NULL DEFAULT false, -- has a dead letter and holds its key
  parked_at     DATETIME(6)  NOT NULL,
  UNIQUE KEY u_outbox_parked (id, destination),
  KEY i_outbox_parked_key (destination, aggregate_id, park_no)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Rows that the cursor has passed and that are not due yet.
CREATE TABLE IF NOT EXISTS t_outbox_delayed (
  id           BIGINT       NOT NULL PRIMARY KEY,
  event_id     VARCHAR(191) NOT NULL,
  destination  VARCHAR(191) NOT NULL,
  aggregate_id VARCHAR(191) NOT NULL,
  due_at       DATETIME(6)  NOT NULL,
  KEY i_outbox_delayed_due (due_at, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Rows to be sent that the cursor does not reach: late ones, and those that a
-- person wants sent again.
CREATE TABLE IF NOT EXISTS t_outbox_extra (
  id         BIGINT       NOT NULL PRIMARY KEY,
  message_id VARCHAR(255) NOT NULL DEFAULT '',
  reason     VARCHAR(64)  NOT NULL,
  added_at   DATETIME(6)  NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Cold holes: runs of ids that no transaction can own any more. One that comes
-- back all the same is late.
CREATE TABLE IF NOT EXISTS t_outbox_gap (
  first_id    BIGINT      NOT NULL PRIMARY KEY,
  last_id     BIGINT      NOT NULL,
  recorded_at DATETIME(6) NOT NULL,
  CHECK (last_id >= first_id)
) ENGINE = InnoDB;

-- What people have paused, and the events that the relay is to pass. The
-- version tells every process that something has changed; whoever changes these
-- tables adds one to it in the same transaction. (A trigger would need a right
-- that few roles have where there is a binary log.)
CREATE TABLE IF NOT EXISTS settle_control (
  kind       VARCHAR(32)  NOT NULL,                -- relay, topic, group, key
  name       VARCHAR(400) NOT NULL,                -- for a key: group/key at a consumer, key at the relay
  created_by VARCHAR(191) NOT NULL,
  created_at DATETIME(6)  NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;
CREATE TABLE IF NOT EXISTS settle_skip (
  event_id   VARCHAR(191) NOT NULL PRIMARY KEY,
  created_by VARCHAR(191) NOT NULL,
  created_at DATETIME(6)  NOT NULL,
  passed_at  DATETIME(6)                           -- when the relay passed it
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;
CREATE TABLE IF NOT EXISTS settle_control_version (
  one     INT    NOT NULL PRIMARY KEY CHECK (one = 1),
  version BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO settle_control_version VALUES (1, 1);

-- +goose Down
DROP TABLE IF EXISTS settle_control_version;
DROP TABLE IF EXISTS settle_skip;
DROP TABLE IF EXISTS settle_control;
DROP TABLE IF EXISTS t_outbox_gap;
DROP TABLE IF EXISTS t_outbox_extra;
DROP TABLE IF EXISTS t_outbox_delayed;
DROP TABLE IF EXISTS t_outbox_parked;
DROP TABLE IF EXISTS t_outbox_checkpoint;
DROP TABLE IF EXISTS settle_renewal;
DROP TABLE IF EXISTS t_outbox_lease;
DROP VIEW IF EXISTS settle_outbox_log;
DROP VIEW IF EXISTS t_outbox_event;
DROP TABLE IF EXISTS t_outbox_projection;
DROP TABLE IF EXISTS settle_adoption;
