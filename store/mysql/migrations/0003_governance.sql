-- +goose NO TRANSACTION
-- +goose Up
-- Events that can't go on without a person, of the relay (the broker refused
-- them) and of consumer groups.
CREATE TABLE IF NOT EXISTS t_dead_letter (
  id             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  service_side   VARCHAR(16)  NOT NULL,            -- relay, consumer
  consumer_group VARCHAR(191) NOT NULL,            -- '' for the relay
  event_id       VARCHAR(191) NOT NULL,
  destination    VARCHAR(191) NOT NULL DEFAULT '', -- topic it was refused for; '' for a consumer
  outbox_id      BIGINT       NOT NULL DEFAULT 0,  -- t_outbox_event.id; 0 for a consumer
  event_type     VARCHAR(191) NOT NULL DEFAULT '',
  aggregate_type VARCHAR(191) NOT NULL DEFAULT '',
  aggregate_id   VARCHAR(191) NOT NULL DEFAULT '', -- the ordering key
  aggregate_seq  BIGINT       NOT NULL DEFAULT 0,
  biz_key        VARCHAR(191) NOT NULL DEFAULT '',
  trace_id       VARCHAR(191) NOT NULL DEFAULT '',
  class          VARCHAR(64)  NOT NULL,
  reason         MEDIUMTEXT   NOT NULL,
  attempts       INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,            -- OPEN, REPLAYING, REPLAYED, COMPENSATING, COMPENSATED, DISCARDED, SUPERSEDED
  blocking       BOOLEAN      NOT NULL DEFAULT true, -- its key waits for it
  opened_at      DATETIME(6)  NOT NULL,
  due_at         DATETIME(6)  NOT NULL,            -- somebody should have decided by then
  acted_by       VARCHAR(191) NOT NULL DEFAULT '', -- who asked for the last replay
  closed_at      DATETIME(6),
  closed_by      VARCHAR(191) NOT NULL DEFAULT '',
  topic          VARCHAR(255) NOT NULL DEFAULT '', -- where the broker has it
  `partition`    INT          NOT NULL DEFAULT 0,
  `offset`       BIGINT       NOT NULL DEFAULT 0,
  position       BIGINT       NOT NULL DEFAULT 0,
  appended_at    DATETIME(6),
  recorded_at    DATETIME(6),                      -- the broker's time of it
  record_key     LONGBLOB     NOT NULL DEFAULT (''),
  raw            LONGBLOB,                         -- the record's value as found
  payload        LONGBLOB,                         -- the event's payload, where it could be read
  headers        LONGBLOB     NOT NULL DEFAULT ('{}'), -- JSON object
  UNIQUE KEY u_dead_letter_event (consumer_group, event_id, destination),
  KEY i_dead_letter_state (state, id),
  KEY i_dead_letter_event (event_id),
  KEY i_dead_letter_aggregate (aggregate_id),
  KEY i_dead_letter_biz (biz_key),
  KEY i_dead_letter_trace (trace_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- The acts of people, a chain: hash covers prev_hash and every other column,
-- seq has no gap.
CREATE TABLE IF NOT EXISTS t_audit (
  seq       BIGINT       NOT NULL PRIMARY KEY,
  at        DATETIME(6)  NOT NULL,
  actor     VARCHAR(191) NOT NULL,
  action    VARCHAR(64)  NOT NULL,
  target    VARCHAR(600) NOT NULL,                 -- consumer_group:event_id (relay:event_id for one of the relay), or kind:name of what was paused
  reason    MEDIUMTEXT   NOT NULL,
  prev_hash VARCHAR(64)  NOT NULL,
  hash      VARCHAR(64)  NOT NULL,
  KEY i_audit_target (target)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- The chain has one last entry: acts of people queue on this row, so that two
-- of them never wait for each other's.
CREATE TABLE IF NOT EXISTS t_audit_turn (
  one INT NOT NULL PRIMARY KEY CHECK (one = 1)
) ENGINE = InnoDB;
INSERT IGNORE INTO t_audit_turn VALUES (1);

-- +goose Down
DROP TABLE IF EXISTS t_audit_turn;
DROP TABLE IF EXISTS t_audit;
DROP TABLE IF EXISTS t_dead_letter;
