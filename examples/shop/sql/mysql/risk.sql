-- The risk service's own tables. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
CREATE TABLE IF NOT EXISTS t_assessment (
  order_id   VARCHAR(191) PRIMARY KEY,
  state      VARCHAR(191) NOT NULL CHECK (state IN ('APPROVED', 'HELD', 'REJECTED', 'CLOSED')),
  version    BIGINT  NOT NULL,            -- counts its events
  reason     VARCHAR(2000) NOT NULL DEFAULT '', -- why it is in this state
  review_at  BIGINT  NOT NULL DEFAULT 0,  -- when it is to be looked at; 0: it isn't
  updated_at BIGINT  NOT NULL
);
