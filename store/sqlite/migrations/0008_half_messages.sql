-- +goose Up
-- Events that go to the broker as half messages, and what becomes of them. Times
-- are microseconds since 1970, UTC.
--
-- Names this database among all that may use one group of producers.
CREATE TABLE t_half_scope (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  scope TEXT    NOT NULL
) STRICT;
INSERT INTO t_half_scope (one, scope) VALUES (1, lower(hex(randomblob(10))));

-- One row for each half message whose local transaction has ended: inserted by
-- that transaction, or by the check that found none and bars it.
CREATE TABLE t_half_message (
  tx_id        TEXT    PRIMARY KEY,
  state        TEXT    NOT NULL,             -- COMMITTED, CONFIRMED (the broker delivers it), ROLLED_BACK, DEAD, DISCARDED
  event_id     TEXT    NOT NULL,
  event_type   TEXT    NOT NULL,
  aggregate_id TEXT    NOT NULL,             -- no order is kept among events of one key
  biz_key      TEXT,                         -- NULL: it is the aggregate_id
  trace_id     TEXT,
  topic        TEXT    NOT NULL,
  handle       TEXT    NOT NULL DEFAULT '',  -- where the broker keeps it back
  event        BLOB,                         -- JSON, without the payload; NULL of one rolled back
  payload      BLOB,
  recorded_at  INTEGER NOT NULL,
  ended_at     INTEGER,                      -- confirmed, rolled back or discarded
  due_at       INTEGER,                      -- when it is swept up; NULL: it is not to be
  tries        INTEGER NOT NULL DEFAULT 0,
  cause        TEXT    NOT NULL DEFAULT ''   -- why it was rolled back, or is not delivered
) STRICT;
CREATE INDEX i_half_message_event ON t_half_message (event_id);
CREATE INDEX i_half_message_aggregate ON t_half_message (aggregate_id);
CREATE INDEX i_half_message_biz ON t_half_message (biz_key) WHERE biz_key IS NOT NULL;
CREATE INDEX i_half_message_trace ON t_half_message (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX i_half_message_due ON t_half_message (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX i_half_message_ended ON t_half_message (ended_at) WHERE ended_at IS NOT NULL;

-- Every time that somebody asked what became of one, with the answer.
CREATE TABLE t_half_check (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  tx_id        TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  event_type   TEXT    NOT NULL,
  aggregate_id TEXT    NOT NULL,
  asked_at     INTEGER NOT NULL,
  asked_by     TEXT    NOT NULL,             -- broker, sender
  answer       TEXT    NOT NULL,             -- COMMIT, ROLLBACK, UNKNOWN
  times        INTEGER NOT NULL,             -- how often the broker had asked before
  owner        TEXT    NOT NULL,             -- the process that answered
  cause        TEXT    NOT NULL              -- why it could not be said
) STRICT;
CREATE INDEX i_half_check_tx ON t_half_check (tx_id);
CREATE INDEX i_half_check_event ON t_half_check (event_id);
CREATE INDEX i_half_check_aggregate ON t_half_check (aggregate_id);
CREATE INDEX i_half_check_asked ON t_half_check (asked_at);

-- +goose Down
DROP TABLE t_half_check;
DELETE FROM t_dead_letter WHERE service_side = 'txmsg';
DROP TABLE t_half_message;
DROP TABLE t_half_scope;
