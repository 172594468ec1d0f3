-- +goose Up
-- Members of groups whose partitions the broker assigns: whoever does not take
-- its rows back has died, and what it had in hand is tried alone.
CREATE TABLE t_consume_member (
  consumer_group text        NOT NULL,
  owner          text        NOT NULL,            -- one life of a member
  slot           integer     NOT NULL,            -- 0: the member; from 1 on, a worker of it
  expires_at     timestamptz,                     -- of the member: it is dead from then on
  in_hand        text        NOT NULL DEFAULT '', -- of a worker: JSON array of event ids, written while others have died of late
  PRIMARY KEY (consumer_group, owner, slot)
);

-- +goose Down
DROP TABLE t_consume_member;
