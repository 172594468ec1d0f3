-- +goose NO TRANSACTION
-- +goose Up
-- Members of groups whose partitions the broker assigns: whoever does not take
-- its rows back has died, and what it had in hand is tried alone.
CREATE TABLE IF NOT EXISTS t_consume_member (
  consumer_group VARCHAR(191) NOT NULL,
  owner          VARCHAR(191) NOT NULL,            -- one life of a member
  slot           INT          NOT NULL,            -- 0: the member; from 1 on, a worker of it
  expires_at     DATETIME(6),                      -- of the member: it is dead from then on
  in_hand        MEDIUMTEXT,                       -- of a worker: JSON array of event ids, written while others have died of late
  PRIMARY KEY (consumer_group, owner, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE settle_exact;

-- +goose Down
DROP TABLE IF EXISTS t_consume_member;
