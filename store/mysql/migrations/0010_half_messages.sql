-- +goose NO TRANSACTION
-- +goose Up
-- Events that go to the broker as half messages, and what becomes of them.
--
-- Names this database among all that may use one group of producers.
CREATE TABLE IF NOT EXISTS t_half_scope (
  one   INT         NOT NULL PRIMARY KEY,
  scope VARCHAR(64) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;
INSERT IGNORE INTO t_half_scope (one, scope) VALUES (1, LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 20));

-- One row for each half message whose local transaction has ended: inserted by
-- that transaction, or by the check that found none and bars it.
CREATE TABLE IF NOT EXISTS t_half_message (
  tx_id        VARCHAR(191) NOT NULL PRIMARY KEY,
  state        VARCHAR(16)  NOT NULL,             -- COMMITTED, CONFIRMED (the broker delivers it), ROLLED_BACK, DEAD, DISCARDED
  event_id     VARCHAR(191) NOT NULL,
  event_type   VARCHAR(191) NOT NULL,
  aggregate_id VARCHAR(191) NOT NULL,             -- no order is kept among events of one key
  biz_key      VARCHAR(191),                      -- NULL: it is the aggregate_id
  trace_id     VARCHAR(191),
  topic        VARCHAR(191) NOT NULL,
  handle       TEXT         NOT NULL,             -- where the broker keeps it back
  event        MEDIUMBLOB,                        -- JSON, without the payload; NULL of one rolled back
  payload      LONGBLOB,
  recorded_at  DATETIME(6)  NOT NULL,
  ended_at     DATETIME(6),                       -- confirmed, rolled back or discarded
  due_at       DATETIME(6),                       -- when it is swept up; NULL: it is not to be
  tries        INT          NOT NULL DEFAULT 0,
  cause        TEXT         NOT NULL,             -- why it was rolled back, or is not delivered
  KEY i_half_message_event (event_id),
  KEY i_half_message_aggregate (aggregate_id),
  KEY i_half_message_biz (biz_key),
  KEY i_half_message_trace (trace_id),
  KEY i_half_message_due (due_at),
  KEY i_half_message_ended (ended_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Every time that somebody asked what became of one, with the answer.
CREATE TABLE IF NOT EXISTS t_half_check (
  id           BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tx_id        VARCHAR(191) NOT NULL,
  event_id     VARCHAR(191) NOT NULL,
  event_type   VARCHAR(191) NOT NULL,
  aggregate_id VARCHAR(191) NOT NULL,
  asked_at     DATETIME(6)  NOT NULL,
  asked_by     VARCHAR(16)  NOT NULL,             -- broker, sender
  answer       VARCHAR(16)  NOT NULL,             -- COMMIT, ROLLBACK, UNKNOWN
  times        INT          NOT NULL,             -- how often the broker had asked before
  owner        VARCHAR(191) NOT NULL,             -- the process that answered
  cause        TEXT         NOT NULL,             -- why it could not be said
  KEY i_half_check_tx (tx_id),
  KEY i_half_check_event (event_id),
  KEY i_half_check_aggregate (aggregate_id),
  KEY i_half_check_asked (asked_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- +goose Down
DROP TABLE IF EXISTS t_half_check;
DELETE FROM t_dead_letter WHERE service_side = 'txmsg';
DROP TABLE IF EXISTS t_half_message;
DROP TABLE IF EXISTS t_half_scope;
