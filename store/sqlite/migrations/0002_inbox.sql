-- +goose Up
-- Times are microseconds since 1970, UTC. Every table is per consumer group, so
-- that several groups can share one database.

-- What each group has done with each event. A row is inserted first, in the
-- transaction of the effect; nothing is acknowledged before that commits.
CREATE TABLE t_message_consume_log (
  processed_no   INTEGER PRIMARY KEY,          -- order in which events were recorded, and set anew when a parked one is applied: effects of a key rise by it
  consumer_group TEXT    NOT NULL,
  event_id       TEXT    NOT NULL,
  event_type     TEXT    NOT NULL DEFAULT '',
  aggregate_id   TEXT    NOT NULL DEFAULT '',  -- the ordering key
  aggregate_seq  INTEGER NOT NULL DEFAULT 0,   -- 0: the producer does not count
  effect_key     TEXT,                         -- set once the effect is there
  root_id        TEXT,                         -- first event of the lineage that this edited event stands in for
  status         TEXT    NOT NULL,             -- APPLIED, REJECTED, DUPLICATE (of an effect or a lineage), PARKED, DEAD, DISCARDED, SUPERSEDED; foreign: PROCESSING, SUCCESS, FAILED
  attempts       INTEGER NOT NULL DEFAULT 1,
  payload_hash   INTEGER,                      -- first 8 bytes, big-endian, of the payload's SHA-256
  appended_at    INTEGER,                      -- by the producer, else the broker's time; NULL: neither is known, never purged
  processed_at   INTEGER NOT NULL,
  reason         TEXT                          -- of a rejection, or why it is a duplicate
) STRICT;
CREATE UNIQUE INDEX u_consume_log_event ON t_message_consume_log (consumer_group, event_id);
CREATE UNIQUE INDEX u_consume_log_effect ON t_message_consume_log (consumer_group, event_type, effect_key) WHERE effect_key IS NOT NULL;
CREATE INDEX i_consume_log_root ON t_message_consume_log (consumer_group, root_id) WHERE root_id IS NOT NULL;
CREATE INDEX i_consume_log_aggregate ON t_message_consume_log (aggregate_id);

-- Events that wait: failed ones, those behind them, and dead ones that hold
-- their key. The id orders the rows of one key; AUTOINCREMENT, or the id of a
-- deleted last row would be given again.
CREATE TABLE t_consume_retry (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer_group   TEXT    NOT NULL,
  aggregate_id     TEXT    NOT NULL,           -- the ordering key
  event_id         TEXT    NOT NULL,
  event_type       TEXT    NOT NULL,
  aggregate_type   TEXT    NOT NULL,
  aggregate_seq    INTEGER NOT NULL,
  biz_key          TEXT    NOT NULL,
  trace_id         TEXT    NOT NULL,
  state            TEXT    NOT NULL,           -- PARKED, or DEAD: has a dead letter and holds its key
  blocking         INTEGER NOT NULL,           -- 1: what follows in the key waits for it
  attempts         INTEGER NOT NULL,
  next_at          INTEGER,                    -- NULL: waits for the row before it
  class            TEXT    NOT NULL,
  cause            TEXT    NOT NULL,
  accept_duplicate INTEGER NOT NULL DEFAULT 0, -- 1: a person accepted that it may be a duplicate
  replays          INTEGER NOT NULL DEFAULT 0, -- how often a person replayed it
  parked_at        INTEGER NOT NULL,
  gap_since        INTEGER,                    -- since when what is before it in the producer's count is missed
  topic            TEXT    NOT NULL,           -- where the broker has it
  partition        INTEGER NOT NULL,
  offset           INTEGER NOT NULL,
  position         INTEGER NOT NULL,
  recorded_at      INTEGER,                    -- the broker's time of it
  record_key       TEXT    NOT NULL,
  raw              BLOB    NOT NULL,           -- the record's value
  headers          TEXT    NOT NULL            -- JSON object
) STRICT;
CREATE UNIQUE INDEX u_consume_retry_event ON t_consume_retry (consumer_group, event_id);
CREATE INDEX i_consume_retry_key ON t_consume_retry (consumer_group, aggregate_id, id);
CREATE INDEX i_consume_retry_due ON t_consume_retry (consumer_group, next_at) WHERE state = 'PARKED' AND next_at IS NOT NULL;
CREATE INDEX i_consume_retry_aggregate ON t_consume_retry (aggregate_id);
CREATE INDEX i_consume_retry_biz ON t_consume_retry (biz_key);
CREATE INDEX i_consume_retry_trace ON t_consume_retry (trace_id) WHERE trace_id <> '';

-- Owner and floor of each partition that a group reads. The epoch is the fence:
-- it rises with each takeover and is checked in the transaction of each effect.
CREATE TABLE t_consume_partition (
  consumer_group   TEXT    NOT NULL,
  topic            TEXT    NOT NULL,
  number           INTEGER NOT NULL,
  owner            TEXT    NOT NULL DEFAULT '', -- '': given back
  epoch            INTEGER NOT NULL DEFAULT 0,
  generation       TEXT    NOT NULL DEFAULT '', -- which life of the stream position belongs to
  position         INTEGER NOT NULL DEFAULT 0,  -- the floor: all up to it is done
  event_id         TEXT    NOT NULL DEFAULT '', -- of the record at the floor
  claimed_position INTEGER NOT NULL DEFAULT 0,  -- the floor when the owner took over
  deaths           INTEGER NOT NULL DEFAULT 0,  -- owners in a row that ended uncleanly without moving the floor
  PRIMARY KEY (consumer_group, topic, number)
) STRICT, WITHOUT ROWID;

-- The dedup floor: an event appended before it that is not in the log can't be
-- told from one that was done and forgotten.
CREATE TABLE t_consume_floor (
  consumer_group TEXT    PRIMARY KEY,
  dedup_floor    INTEGER NOT NULL,
  forgotten_no   INTEGER NOT NULL DEFAULT 0    -- processed_no up to which rows were looked at
) STRICT, WITHOUT ROWID;

-- How far groups that follow the producer's count have come.
CREATE TABLE t_consume_seq (
  consumer_group TEXT    NOT NULL,
  aggregate_type TEXT    NOT NULL,
  aggregate_id   TEXT    NOT NULL,
  last_seq       INTEGER NOT NULL,
  PRIMARY KEY (consumer_group, aggregate_type, aggregate_id)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE t_consume_seq;
DROP TABLE t_consume_floor;
DROP TABLE t_consume_partition;
DROP TABLE t_consume_retry;
DROP TABLE t_message_consume_log;
