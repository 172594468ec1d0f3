-- +goose Up
-- How the table of another owner is read as the outbox; one row, made before
-- anything else. Nothing is made in its schema, altered there, or made to depend
-- on it.
CREATE TABLE settle_adoption (
  one             integer     PRIMARY KEY CHECK (one = 1),
  decided         json        NOT NULL,            -- table, columns, zone, payload, topics, statuses, projection
  high_id         bigint,                          -- highest id when it was adopted; NULL: not looked yet
  listed_id       bigint      NOT NULL DEFAULT 0,  -- how far what waits was listed
  begun_at        timestamptz NOT NULL,
  adopted_at      timestamptz,                     -- NULL: not finished
  foreign_id      bigint      NOT NULL DEFAULT 0,  -- highest id seen that another relay has sent or holds
  foreign_rows    bigint      NOT NULL DEFAULT 0,  -- how many of them were seen
  foreign_seen_at timestamptz                      -- when the last one was
);

-- Rows whose status could not be written when it changed, because somebody held
-- them: what it is to be.
CREATE TABLE t_outbox_projection (
  id       bigint      PRIMARY KEY,
  status   text        NOT NULL,                   -- SENT, RETRY, DEAD
  attempts integer     NOT NULL,
  next_at  timestamptz,
  cause    text        NOT NULL,
  noted_at timestamptz NOT NULL
);

-- Who leads each lane. The epoch is the fence: it rises with each takeover, and
-- each of the leader's writes holds the row for share. Renewals are rows of
-- settle_renewal, so that the row is changed only when a leader comes or goes.
CREATE TABLE t_outbox_lease (
  lane     integer     PRIMARY KEY,
  owner    text        NOT NULL,
  epoch    bigint      NOT NULL,
  clean    boolean     NOT NULL,                   -- given back by its owner
  deaths   integer     NOT NULL,                   -- leaders in a row that ended without giving it back, each soon after it took over
  taken_at timestamptz NOT NULL
);

-- Renewals of leases: insert-only, the newest is max(epoch), then
-- max(renewal_no). scope and name say what is leased.
CREATE TABLE settle_renewal (
  renewal_no bigint      GENERATED ALWAYS AS IDENTITY,
  scope      text        NOT NULL,
  name       text        NOT NULL,
  epoch      bigint      NOT NULL,
  owner      text        NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (scope, name, epoch, renewal_no)
);

-- How far the relay has come: insert-only, the newest is max(epoch), then
-- max(number). In open, one id stands for itself and [a, b] for all from a to b.
CREATE TABLE t_outbox_checkpoint (
  seq        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  lane       integer     NOT NULL,
  epoch      bigint      NOT NULL,
  number     bigint      NOT NULL,
  readers    json        NOT NULL,                 -- [{destination, cursor, cursor_event, open}]
  first_id   bigint,                               -- lowest and highest id in sent
  last_id    bigint,
  sent       json,                                 -- {topic: [[partition, offset of the first, sent_at - created_at in us, [id - first_id, …]]]}, offsets rise by one
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX u_outbox_checkpoint ON t_outbox_checkpoint (lane, epoch, number);
CREATE INDEX i_outbox_checkpoint_ids ON t_outbox_checkpoint (last_id, first_id) WHERE last_id IS NOT NULL;

-- Rows of blocked keys: the head that failed and all that came behind it.
CREATE TABLE t_outbox_parked (
  park_no       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of arrival; the lowest of a key is its head
  destination   text        NOT NULL,              -- topic
  aggregate_id  text        NOT NULL,              -- the ordering key
  id            bigint      NOT NULL,              -- t_outbox_event.id
  event_id      text        NOT NULL,
  event_type    text        NOT NULL,
  message_id    text        NOT NULL DEFAULT '',   -- '': the event id
  attempts      integer     NOT NULL,
  next_at       timestamptz,                       -- NULL: as soon as it is the head
  class         text        NOT NULL,
  cause         text        NOT NULL,
  suspect       boolean     NOT NULL DEFAULT false, -- was in doubt when a process died
  dead          boolean     NOT NULL DEFAULT false, -- has a dead letter and holds its key
  parked_at     timestamptz NOT NULL
);
CREATE UNIQUE INDEX u_outbox_parked ON t_outbox_parked (id, destination);
CREATE INDEX i_outbox_parked_key ON t_outbox_parked (destination, aggregate_id, park_no);

-- Rows that the cursor has passed and that are not due yet.
CREATE TABLE t_outbox_delayed (
  id           bigint      PRIMARY KEY,
  event_id     text        NOT NULL,
  destination  text        NOT NULL,
  aggregate_id text        NOT NULL,
  due_at       timestamptz NOT NULL
);
CREATE INDEX i_outbox_delayed_due ON t_outbox_delayed (due_at, id);

-- Rows to be sent that the cursor does not reach: late ones.
CREATE TABLE t_outbox_extra (
  id         bigint      PRIMARY KEY,
  message_id text        NOT NULL DEFAULT '',
  reason     text        NOT NULL,
  added_at   timestamptz NOT NULL
);

-- Cold holes: runs of ids that no transaction can own any more. One that comes
-- back all the same is late.
CREATE TABLE t_outbox_gap (
  first_id    bigint      PRIMARY KEY,
  last_id     bigint      NOT NULL CHECK (last_id >= first_id),
  recorded_at timestamptz NOT NULL
);

-- What people have paused, and the events that the relay is to pass. The
-- version tells every process that something has changed.
CREATE TABLE settle_control (
  kind       text        NOT NULL,                 -- relay, topic, group, key
  name       text        NOT NULL,                 -- for a key: group/key at a consumer, key at the relay
  created_by text        NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE TABLE settle_skip (
  event_id   text        PRIMARY KEY,
  created_by text        NOT NULL,
  created_at timestamptz NOT NULL,
  passed_at  timestamptz                           -- when the relay passed it
);
CREATE TABLE settle_control_version (
  one     integer PRIMARY KEY CHECK (one = 1),
  version bigint  NOT NULL
);
INSERT INTO settle_control_version VALUES (1, 1);
-- +goose StatementBegin
CREATE FUNCTION settle_control_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  UPDATE settle_control_version SET version = version + 1;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER control_changes AFTER INSERT OR DELETE ON settle_control FOR EACH ROW EXECUTE FUNCTION settle_control_changed();
CREATE TRIGGER skip_is_asked AFTER INSERT ON settle_skip FOR EACH ROW EXECUTE FUNCTION settle_control_changed();

-- +goose Down
DROP TABLE settle_control_version;
DROP TABLE settle_skip;
DROP TABLE settle_control;
DROP FUNCTION settle_control_changed;
DROP TABLE t_outbox_gap;
DROP TABLE t_outbox_extra;
DROP TABLE t_outbox_delayed;
DROP TABLE t_outbox_parked;
DROP TABLE t_outbox_checkpoint;
DROP TABLE settle_renewal;
DROP TABLE t_outbox_lease;
DROP TABLE t_outbox_projection;
DROP TABLE settle_adoption;
