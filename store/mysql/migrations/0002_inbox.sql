-- +goose NO TRANSACTION
-- +goose Up
-- Every table is per consumer group, so that several groups can share one
-- database.

-- What each group has done with each event. A row is inserted first, in the
-- transaction of the effect; nothing is acknowledged before that commits.
CREATE TABLE IF NOT EXISTS t_message_consume_log (
  processed_no   BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY, -- order in which events were recorded, and set anew when a parked one is applied: effects of a key rise by it
  consumer_group VARCHAR(191) NOT NULL,
  event_id       VARCHAR(191) NOT NULL,
  event_type     VARCHAR(191) NOT NULL DEFAULT '',
  aggregate_id   VARCHAR(191) NOT NULL DEFAULT '', -- the ordering key
  aggregate_seq  BIGINT       NOT NULL DEFAULT 0,  -- 0: the producer does not count
  effect_key     VARCHAR(191),                     -- set once the effect is there
  root_id        VARCHAR(191),                     -- first event of the lineage that this edited event stands in for
  status         VARCHAR(16)  NOT NULL,            -- APPLIED, REJECTED, DUPLICATE (of an effect or a lineage), PARKED, DEAD, DISCARDED, SUPERSEDED, COMPENSATED; foreign: PROCESSING, SUCCESS, FAILED
  attempts       INT          NOT NULL DEFAULT 1,
  payload_hash   BIGINT,                           -- first 8 bytes, big-endian, of the payload's SHA-256
  appended_at    DATETIME(6),                      -- by the producer, else the broker's time; NULL: neither is known, never purged
  processed_at   DATETIME(6)  NOT NULL,
  reason         MEDIUMTEXT,                       -- of a rejection, or why it is a duplicate
  UNIQUE KEY u_consume_log_event (consumer_group, event_id),
  UNIQUE KEY u_consume_log_effect (consumer_group, event_type, effect_key),
  KEY i_consume_log_root (consumer_group, root_id),
  KEY i_consume_log_aggregate (aggregate_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Events that wait: failed ones, those behind them, and dead ones that hold
-- their key. The id orders the rows of one key.
CREATE TABLE IF NOT EXISTS t_consume_retry (
  id               BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer_group   VARCHAR(191) NOT NULL,
  aggregate_id     VARCHAR(191) NOT NULL,          -- the ordering key
  event_id         VARCHAR(191) NOT NULL,
  event_type       VARCHAR(191) NOT NULL,
  aggregate_type   VARCHAR(191) NOT NULL,
  aggregate_seq    BIGINT       NOT NULL,
  biz_key          VARCHAR(191) NOT NULL,
  trace_id         VARCHAR(191) NOT NULL,
  state            VARCHAR(16)  NOT NULL,          -- PARKED, or DEAD: has a dead letter and holds its key
  blocking         BOOLEAN      NOT NULL,          -- what follows in the key waits for it
  attempts         INT          NOT NULL,
  next_at          DATETIME(6),                    -- NULL: waits for the row before it
  class            VARCHAR(64)  NOT NULL,
  cause            MEDIUMTEXT   NOT NULL,
  accept_duplicate BOOLEAN      NOT NULL DEFAULT false, -- a person accepted that it may be a duplicate
  replays          INT          NOT NULL DEFAULT 0, -- how often a person replayed it
  compensate       MEDIUMTEXT,                     -- NULL: it is to be handled; otherwise to be compensated, and by whom and why
  claimed_by       VARCHAR(191),                   -- what is due is given to one member of the group, for a while
  claimed_until    DATETIME(6),
  parked_at        DATETIME(6)  NOT NULL,
  gap_since        DATETIME(6),                    -- since when what is before it in the producer's count is missed
  topic            VARCHAR(255) NOT NULL,          -- where the broker has it
  `partition`      INT          NOT NULL,
  `offset`         BIGINT       NOT NULL,
  position         BIGINT       NOT NULL,
  recorded_at      DATETIME(6),                    -- the broker's time of it
  record_key       LONGBLOB     NOT NULL,
  raw              LONGBLOB     NOT NULL,          -- the record's value
  headers          LONGBLOB     NOT NULL,          -- JSON object
  UNIQUE KEY u_consume_retry_event (consumer_group, event_id),
  KEY i_consume_retry_key (consumer_group, aggregate_id, id),
  KEY i_consume_retry_due (consumer_group, state, next_at),
  KEY i_consume_retry_aggregate (aggregate_id),
  KEY i_consume_retry_biz (biz_key),
  KEY i_consume_retry_trace (trace_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Owner and floor of each partition that a group reads. The epoch is the fence:
-- it rises with each takeover and is checked in the transaction of each effect.
CREATE TABLE IF NOT EXISTS t_consume_partition (
  consumer_group   VARCHAR(191) NOT NULL,
  topic            VARCHAR(255) NOT NULL,
  number           INT          NOT NULL,
  owner            VARCHAR(191) NOT NULL DEFAULT '', -- '': given back
  epoch            BIGINT       NOT NULL DEFAULT 0,
  generation       VARCHAR(255) NOT NULL DEFAULT '', -- which life of the stream position belongs to
  position         BIGINT       NOT NULL DEFAULT 0, -- the floor: all up to it is done
  event_id         VARCHAR(191) NOT NULL DEFAULT '', -- of the record at the floor
  claimed_position BIGINT       NOT NULL DEFAULT 0, -- the floor when the owner took over
  deaths           INT          NOT NULL DEFAULT 0, -- owners in a row that ended uncleanly without moving the floor
  PRIMARY KEY (consumer_group, topic, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- The dedup floor: an event appended before it that is not in the log can't be
-- told from one that was done and forgotten.
CREATE TABLE IF NOT EXISTS t_consume_floor (
  consumer_group VARCHAR(191) NOT NULL PRIMARY KEY,
  dedup_floor    DATETIME(6)  NOT NULL,
  forgotten_no   BIGINT       NOT NULL DEFAULT 0   -- processed_no up to which rows were looked at
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- How far groups that follow the producer's count have come.
CREATE TABLE IF NOT EXISTS t_consume_seq (
  consumer_group VARCHAR(191) NOT NULL,
  aggregate_type VARCHAR(191) NOT NULL,
  aggregate_id   VARCHAR(191) NOT NULL,
  last_seq       BIGINT       NOT NULL,
  PRIMARY KEY (consumer_group, aggregate_type, aggregate_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- +goose Down
DROP TABLE IF EXISTS t_consume_seq;
DROP TABLE IF EXISTS t_consume_floor;
DROP TABLE IF EXISTS t_consume_partition;
DROP TABLE IF EXISTS t_consume_retry;
DROP TABLE IF EXISTS t_message_consume_log;
