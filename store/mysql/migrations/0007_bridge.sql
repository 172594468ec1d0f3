-- +goose NO TRANSACTION
-- +goose Up
-- Dead letters of consumers that are not ours, which a bridge has brought in from
-- the broker's own dead-letter places: rows of t_dead_letter whose service_side
-- is bridge and whose destination is their identity, with more told here.
CREATE TABLE IF NOT EXISTS t_bridged_letter (
  letter_id      BIGINT       NOT NULL PRIMARY KEY, -- t_dead_letter.id
  consumer_group VARCHAR(191) NOT NULL,
  identity       VARCHAR(191) NOT NULL,            -- of this death: the same however often the letter comes
  before_id      BIGINT,                           -- the letter after whose replay it died again
  died_at        DATETIME(6),
  bridged_at     DATETIME(6)  NOT NULL,
  told           LONGBLOB     NOT NULL,            -- JSON: where it lay and came from, the cause, all headers as bytes
  target         VARCHAR(16)  NOT NULL DEFAULT '', -- where the last replay goes: group, origin
  tries          INT          NOT NULL DEFAULT 0,  -- of that replay
  next_at        DATETIME(6),                      -- when it is sent back; NULL: it is not to be
  refused        MEDIUMTEXT,                       -- why the last try has not come about
  UNIQUE KEY u_bridged_letter_identity (consumer_group, identity),
  KEY i_bridged_letter_due (consumer_group, next_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- Who bridges a group: the epoch fences what is written for it.
CREATE TABLE IF NOT EXISTS t_bridge_lease (
  consumer_group VARCHAR(191) NOT NULL PRIMARY KEY,
  owner          VARCHAR(191) NOT NULL,            -- '': given back
  epoch          BIGINT       NOT NULL,
  expires_at     DATETIME(6)  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- +goose Down
DROP TABLE IF EXISTS t_bridge_lease;
DELETE FROM t_dead_letter WHERE service_side = 'bridge';
DROP TABLE IF EXISTS t_bridged_letter;
