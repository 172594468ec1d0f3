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

-- Here is what stands in the file of this name, from "-- Who leads each lane." to "INSERT IGNORE INTO settle_control_version".

-- +goose Down
-- Here is what stands in the file of this name, from "DROP TABLE IF EXISTS settle_control_version" to "DROP TABLE IF EXISTS t_outbox_lease".
DROP VIEW IF EXISTS settle_outbox_log;
DROP VIEW IF EXISTS t_outbox_event;
DROP TABLE IF EXISTS t_outbox_projection;
DROP TABLE IF EXISTS settle_adoption;
