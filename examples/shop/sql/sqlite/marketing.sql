-- The marketing service's own tables. Times are microseconds since 1970, UTC.
-- points and coupon are what the customer has from the order now: nothing once it was taken back.
CREATE TABLE IF NOT EXISTS t_reward (
  order_id    TEXT    PRIMARY KEY,
  customer_id TEXT    NOT NULL DEFAULT '', -- empty when nothing was granted
  state       TEXT    NOT NULL CHECK (state IN ('GRANTED', 'REVOKED', 'WAIVED', 'BARRED')),
  version     INTEGER NOT NULL,            -- counts its events
  points      INTEGER NOT NULL DEFAULT 0 CHECK (points >= 0),
  coupon      TEXT    NOT NULL DEFAULT '', -- its code
  updated_at  INTEGER NOT NULL,
  CHECK (state = 'GRANTED' OR (points = 0 AND coupon = ''))
) STRICT, WITHOUT ROWID;
-- Every grant of points and every one taken back, with the event that caused
-- it. That an event moves points once is also a rule of the table. A customer's
-- points are the sum.
CREATE TABLE IF NOT EXISTS t_points_ledger (
  cause_event_id TEXT    NOT NULL,
  kind           TEXT    NOT NULL CHECK (kind IN ('GRANT', 'REVOKE')),
  customer_id    TEXT    NOT NULL,
  order_id       TEXT    NOT NULL,
  points         INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  CHECK ((kind = 'GRANT' AND points >= 0) OR (kind = 'REVOKE' AND points <= 0)),
  PRIMARY KEY (cause_event_id, kind)
) STRICT, WITHOUT ROWID;
