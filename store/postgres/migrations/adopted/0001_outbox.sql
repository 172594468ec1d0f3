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

-- Here is what stands in the file of this name, from "-- Who leads each lane." to "CREATE TRIGGER skip_is_asked".

-- +goose Down
-- Here is what stands in the file of this name, from "DROP TABLE settle_control_version" to "DROP TABLE t_outbox_lease".
DROP TABLE t_outbox_projection;
DROP TABLE settle_adoption;
