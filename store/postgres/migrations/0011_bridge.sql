-- +goose Up
-- Dead letters of consumers that are not ours, which a bridge has brought in from
-- the broker's own dead-letter places: rows of t_dead_letter whose service_side
-- is bridge and whose destination is their identity, with more told here.
CREATE TABLE t_bridged_letter (
  letter_id      bigint      PRIMARY KEY,         -- t_dead_letter.id
  consumer_group text        NOT NULL,
  identity       text        NOT NULL,            -- of this death: the same however often the letter comes
  before_id      bigint,                          -- the letter after whose replay it died again
  died_at        timestamptz,
  bridged_at     timestamptz NOT NULL,
  told           bytea       NOT NULL,            -- JSON: where it lay and came from, the cause, all headers as bytes
  target         text        NOT NULL DEFAULT '', -- where the last replay goes: group, origin
  tries          integer     NOT NULL DEFAULT 0,  -- of that replay
  next_at        timestamptz,                     -- when it is sent back; NULL: it is not to be
  refused        text        NOT NULL DEFAULT ''  -- why the last try has not come about
);
CREATE UNIQUE INDEX u_bridged_letter_identity ON t_bridged_letter (consumer_group, identity);
CREATE INDEX i_bridged_letter_due ON t_bridged_letter (consumer_group, next_at) WHERE next_at IS NOT NULL;

-- Who bridges a group: the epoch fences what is written for it.
CREATE TABLE t_bridge_lease (
  consumer_group text        PRIMARY KEY,
  owner          text        NOT NULL,            -- '': given back
  epoch          bigint      NOT NULL,
  expires_at     timestamptz NOT NULL
);

-- +goose Down
DROP TABLE t_bridge_lease;
DELETE FROM t_dead_letter WHERE service_side = 'bridge';
DROP TABLE t_bridged_letter;
