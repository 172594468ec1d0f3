-- The marketing service's own tables. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
-- points and coupon are what the customer has from the order now: nothing once it was taken back.
CREATE TABLE IF NOT EXISTS t_reward (
  order_id    VARCHAR(191) PRIMARY KEY,
  customer_id VARCHAR(191) NOT NULL DEFAULT '', -- empty when nothing was granted
  state       VARCHAR(191) NOT NULL CHECK (state IN ('GRANTED', 'REVOKED', 'WAIVED', 'BARRED')),
  version     BIGINT  NOT NULL,            -- counts its events
  points      BIGINT  NOT NULL DEFAULT 0 CHECK (points >= 0),
  coupon      VARCHAR(191) NOT NULL DEFAULT '', -- its code
  updated_at  BIGINT  NOT NULL,
  CHECK (state = 'GRANTED' OR (points = 0 AND coupon = ''))
);
-- Every grant of points and every one taken back, with the event that caused
-- it. That an event moves points once is also a rule of the table. A customer's
-- points are the sum.
CREATE TABLE IF NOT EXISTS t_points_ledger (
  cause_event_id VARCHAR(191) NOT NULL,
  kind           VARCHAR(191) NOT NULL CHECK (kind IN ('GRANT', 'REVOKE')),
  customer_id    VARCHAR(191) NOT NULL,
  order_id       VARCHAR(191) NOT NULL,
  points         BIGINT  NOT NULL,
  created_at     BIGINT  NOT NULL,
  CHECK ((kind = 'GRANT' AND points >= 0) OR (kind = 'REVOKE' AND points <= 0)),
  PRIMARY KEY (cause_event_id, kind)
);
