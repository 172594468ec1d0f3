-- The risk service's own tables. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS t_assessment (
  order_id   TEXT    PRIMARY KEY,
  state      TEXT    NOT NULL CHECK (state IN ('APPROVED', 'HELD', 'REJECTED', 'CLOSED')),
  version    BIGINT  NOT NULL,            -- counts its events
  reason     TEXT    NOT NULL DEFAULT '', -- why it is in this state
  review_at  BIGINT  NOT NULL DEFAULT 0,  -- when it is to be looked at; 0: it isn't
  updated_at BIGINT  NOT NULL
);
