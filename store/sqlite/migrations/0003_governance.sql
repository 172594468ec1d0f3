-- +goose Up
-- Events that can't go on without a person, of the relay (the broker refused
-- them) and of consumer groups. Times are microseconds since 1970, UTC.
CREATE TABLE t_dead_letter (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  service_side   TEXT    NOT NULL,             -- relay, consumer
  consumer_group TEXT    NOT NULL,             -- '' for the relay
  event_id       TEXT    NOT NULL,
  destination    TEXT    NOT NULL DEFAULT '',  -- topic it was refused for; '' for a consumer
  outbox_id      INTEGER NOT NULL DEFAULT 0,   -- t_outbox_event.id; 0 for a consumer
  event_type     TEXT    NOT NULL DEFAULT '',
  aggregate_type TEXT    NOT NULL DEFAULT '',
  aggregate_id   TEXT    NOT NULL DEFAULT '',  -- the ordering key
  aggregate_seq  INTEGER NOT NULL DEFAULT 0,
  biz_key        TEXT    NOT NULL DEFAULT '',
  trace_id       TEXT    NOT NULL DEFAULT '',
  class          TEXT    NOT NULL,
  reason         TEXT    NOT NULL,
  attempts       INTEGER NOT NULL,
  state          TEXT    NOT NULL,             -- OPEN, REPLAYING, REPLAYED, DISCARDED, SUPERSEDED
  blocking       INTEGER NOT NULL DEFAULT 1,   -- 1: its key waits for it
  opened_at      INTEGER NOT NULL,
  due_at         INTEGER NOT NULL,             -- somebody should have decided by then
  acted_by       TEXT    NOT NULL DEFAULT '',  -- who asked for the last replay
  closed_at      INTEGER,
  closed_by      TEXT    NOT NULL DEFAULT '',
  topic          TEXT    NOT NULL DEFAULT '',  -- where the broker has it
  partition      INTEGER NOT NULL DEFAULT 0,
  offset         INTEGER NOT NULL DEFAULT 0,
  position       INTEGER NOT NULL DEFAULT 0,
  appended_at    INTEGER,
  recorded_at    INTEGER,                      -- the broker's time of it
  record_key     TEXT    NOT NULL DEFAULT '',
  raw            BLOB,                         -- the record's value as found
  payload        BLOB,                         -- the event's payload, where it could be read
  headers        TEXT    NOT NULL DEFAULT '{}' -- JSON object
) STRICT;
CREATE UNIQUE INDEX u_dead_letter_event ON t_dead_letter (consumer_group, event_id, destination);
CREATE INDEX i_dead_letter_state ON t_dead_letter (state, id);
CREATE INDEX i_dead_letter_event ON t_dead_letter (event_id);
CREATE INDEX i_dead_letter_aggregate ON t_dead_letter (aggregate_id);
CREATE INDEX i_dead_letter_biz ON t_dead_letter (biz_key);
CREATE INDEX i_dead_letter_trace ON t_dead_letter (trace_id) WHERE trace_id <> '';

-- The acts of people, a chain: hash covers prev_hash and every other column,
-- seq has no gap.
CREATE TABLE t_audit (
  seq       INTEGER PRIMARY KEY,
  at        INTEGER NOT NULL,
  actor     TEXT    NOT NULL,
  action    TEXT    NOT NULL,                  -- dlq.replay, dlq.discard, control.pause, control.resume, control.skip
  target    TEXT    NOT NULL,                  -- consumer_group:event_id (relay:event_id for one of the relay), or kind:name of what was paused
  reason    TEXT    NOT NULL,
  prev_hash TEXT    NOT NULL,
  hash      TEXT    NOT NULL
) STRICT;
CREATE INDEX i_audit_target ON t_audit (target);
-- +goose StatementBegin
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON t_audit
BEGIN SELECT RAISE(ABORT, 't_audit is append-only: an entry is never changed'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON t_audit
BEGIN SELECT RAISE(ABORT, 't_audit is append-only: an entry is never deleted'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON t_audit
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM t_audit)
BEGIN SELECT RAISE(ABORT, 't_audit is append-only: the next entry follows the last one'); END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE t_audit;
DROP TABLE t_dead_letter;
