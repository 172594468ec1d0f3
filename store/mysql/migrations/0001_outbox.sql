-- +goose NO TRANSACTION
-- +goose Up
-- Each statement that changes the schema is committed by itself here, so each
-- can be run again. Text is compared byte by byte (COLLATE settle_exact becomes
-- the name that this server has for that): keys that differ in case, accents or
-- trailing space are different keys. Times are UTC.

-- The outbox, read as a log: a row is inserted in the transaction of the fact
-- and never marked. Ids are given before the commit, so they are visible in
-- another order than they were given; the relay remembers what it has not seen.
-- Any program may insert: event_id, event_type, aggregate_id and payload are
-- enough. The relay reads from id 1 on.
CREATE TABLE IF NOT EXISTS t_outbox_event (
  id             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  event_id       VARCHAR(191) NOT NULL,
  event_type     VARCHAR(191) NOT NULL,
  aggregate_type VARCHAR(191) NOT NULL DEFAULT '',
  aggregate_id   VARCHAR(191) NOT NULL,            -- the ordering key
  aggregate_seq  BIGINT       NOT NULL DEFAULT 0,  -- 0: the producer does not count
  biz_key        VARCHAR(191),                     -- NULL: the same as aggregate_id
  trace_id       VARCHAR(191),
  causation_id   VARCHAR(191),
  supersedes     VARCHAR(191),                     -- the event that this edited one stands in for
  topic          VARCHAR(191) NOT NULL DEFAULT 'order-domain-event',
  version        INT          NOT NULL DEFAULT 1,  -- of the payload's schema
  content_type   VARCHAR(191) NOT NULL DEFAULT 'application/json',
  occurred_at    DATETIME(6),                      -- NULL: when it was appended
  appended_at    DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  not_before     DATETIME(6),                      -- NULL: at once
  headers        MEDIUMTEXT,                       -- JSON object of strings
  payload        LONGBLOB     NOT NULL,            -- exact bytes
  UNIQUE KEY u_outbox_event (event_id),
  KEY i_outbox_aggregate (aggregate_id),
  KEY i_outbox_biz (biz_key),
  KEY i_outbox_trace (trace_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

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
DROP TABLE IF EXISTS t_outbox_event;
