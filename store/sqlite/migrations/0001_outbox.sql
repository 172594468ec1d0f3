-- +goose Up
-- Times are microseconds since 1970, UTC.

-- The outbox, read as a log: a row is inserted in the transaction of the fact
-- and never marked. SQLite has one writer, so the order of ids is the order of
-- commits. AUTOINCREMENT, or the id of a deleted last row would be given again.
-- Any program may insert: event_id, event_type, aggregate_id and payload are
-- enough. The relay reads from id 1 on.
CREATE TABLE t_outbox_event (
  id             INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
  event_id       TEXT    NOT NULL UNIQUE,
  event_type     TEXT    NOT NULL,
  aggregate_type TEXT    NOT NULL DEFAULT '',
  aggregate_id   TEXT    NOT NULL,             -- the ordering key
  aggregate_seq  INTEGER NOT NULL DEFAULT 0,   -- 0: the producer does not count
  biz_key        TEXT,                         -- NULL: the same as aggregate_id
  trace_id       TEXT,
  causation_id   TEXT,
  supersedes     TEXT,                         -- the event that this edited one stands in for
  topic          TEXT    NOT NULL DEFAULT 'order-domain-event',
  version        INTEGER NOT NULL DEFAULT 1,   -- of the payload's schema
  content_type   TEXT    NOT NULL DEFAULT 'application/json',
  occurred_at    INTEGER,                      -- NULL: when it was appended
  appended_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)),
  not_before     INTEGER,                      -- NULL: at once
  headers        TEXT,                         -- JSON object of strings
  payload        ANY     NOT NULL              -- exact bytes: BLOB, or TEXT from a program that writes strings; last, so that nothing is read behind it
) STRICT;
CREATE INDEX i_outbox_aggregate ON t_outbox_event (aggregate_id);
CREATE INDEX i_outbox_biz ON t_outbox_event (biz_key) WHERE biz_key IS NOT NULL;
CREATE INDEX i_outbox_trace ON t_outbox_event (trace_id) WHERE trace_id IS NOT NULL;

-- Who leads each lane. The epoch is the fence: it rises with each takeover and
-- is checked in the transaction of each of the leader's writes. Renewals are in
-- a file of their own.
CREATE TABLE t_outbox_lease (
  lane       INTEGER PRIMARY KEY,
  owner      TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  clean      INTEGER NOT NULL,                 -- 1: given back by its owner
  deaths     INTEGER NOT NULL,                 -- leaders in a row that ended without giving it back, each soon after it took over
  taken_at   INTEGER NOT NULL
) STRICT;

-- How far the relay has come: insert-only, the newest is max(epoch), then
-- max(number).
CREATE TABLE t_outbox_checkpoint (
  seq        INTEGER PRIMARY KEY,
  lane       INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  number     INTEGER NOT NULL,
  readers    TEXT    NOT NULL,                 -- JSON: [{destination, cursor, cursor_event, open}]
  first_id   INTEGER,                          -- lowest and highest id in sent
  last_id    INTEGER,
  sent       TEXT,                             -- JSON: {topic: [[id, partition, offset, sent_at - created_at]]}
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX u_outbox_checkpoint ON t_outbox_checkpoint (lane, epoch, number);
CREATE INDEX i_outbox_checkpoint_ids ON t_outbox_checkpoint (last_id, first_id) WHERE last_id IS NOT NULL;

-- Rows of blocked keys: the head that failed and all that came behind it.
CREATE TABLE t_outbox_parked (
  park_no       INTEGER PRIMARY KEY AUTOINCREMENT, -- order of arrival; the lowest of a key is its head
  destination   TEXT    NOT NULL,                  -- topic
  aggregate_id  TEXT    NOT NULL,                  -- the ordering key
  id            INTEGER NOT NULL,                  -- t_outbox_event.id
  event_id      TEXT    NOT NULL,
  event_type    TEXT    NOT NULL,
  message_id    TEXT    NOT NULL DEFAULT '',       -- '': the event id
  attempts      INTEGER NOT NULL,
  next_at       INTEGER,                           -- NULL: as soon as it is the head
  class         TEXT    NOT NULL,
  cause         TEXT    NOT NULL,
  suspect       INTEGER NOT NULL DEFAULT 0,        -- 1: was in doubt when a process died
  dead          INTEGER NOT NULL DEFAULT 0,        -- 1: has a dead letter and holds its key
  parked_at     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX u_outbox_parked ON t_outbox_parked (id, destination);
CREATE INDEX i_outbox_parked_key ON t_outbox_parked (destination, aggregate_id, park_no);

-- Rows that the cursor has passed and that are not due yet.
CREATE TABLE t_outbox_delayed (
  id           INTEGER PRIMARY KEY,
  event_id     TEXT    NOT NULL,
  destination  TEXT    NOT NULL,
  aggregate_id TEXT    NOT NULL,
  due_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX i_outbox_delayed_due ON t_outbox_delayed (due_at, id);

-- Rows to be sent that the cursor does not reach: late ones.
CREATE TABLE t_outbox_extra (
  id         INTEGER PRIMARY KEY,
  message_id TEXT    NOT NULL DEFAULT '',
  reason     TEXT    NOT NULL,
  added_at   INTEGER NOT NULL
) STRICT;

-- Cold holes: ids that no transaction can own any more. One that comes back
-- all the same is late.
CREATE TABLE t_outbox_gap (
  id          INTEGER PRIMARY KEY,
  recorded_at INTEGER NOT NULL
) STRICT;

-- What people have paused, and the events that the relay is to pass. The
-- version tells every process that something has changed.
CREATE TABLE settle_control (
  kind       TEXT    NOT NULL,                 -- relay, topic, group, key
  name       TEXT    NOT NULL,                 -- for a key: group/key at a consumer, key at the relay
  created_by TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE settle_skip (
  event_id   TEXT    PRIMARY KEY,
  created_by TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  passed_at  INTEGER                           -- when the relay passed it
) STRICT, WITHOUT ROWID;
CREATE TABLE settle_control_version (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL
) STRICT;
INSERT INTO settle_control_version VALUES (1, 1);
-- +goose StatementBegin
CREATE TRIGGER control_is_paused AFTER INSERT ON settle_control
BEGIN UPDATE settle_control_version SET version = version + 1; END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER control_is_resumed AFTER DELETE ON settle_control
BEGIN UPDATE settle_control_version SET version = version + 1; END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER skip_is_asked AFTER INSERT ON settle_skip
BEGIN UPDATE settle_control_version SET version = version + 1; END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE settle_control_version;
DROP TABLE settle_skip;
DROP TABLE settle_control;
DROP TABLE t_outbox_gap;
DROP TABLE t_outbox_extra;
DROP TABLE t_outbox_delayed;
DROP TABLE t_outbox_parked;
DROP TABLE t_outbox_checkpoint;
DROP TABLE t_outbox_lease;
DROP TABLE t_outbox_event;
