-- The order service's own tables. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS t_order (
  order_id     TEXT    PRIMARY KEY,
  request_key  TEXT    NOT NULL UNIQUE,  -- the client's Idempotency-Key
  request_hash BLOB    NOT NULL,         -- of what was asked for: the same key with another order is refused
  customer_id  TEXT    NOT NULL,
  amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
  status       TEXT    NOT NULL CHECK (status IN ('CREATED', 'RESERVED', 'APPROVED', 'CONFIRMED', 'PAID', 'COMPLETED', 'CANCELLED')),
  reason       TEXT    NOT NULL DEFAULT '',  -- why it was cancelled
  pay          TEXT    NOT NULL CHECK (pay IN ('now', 'later')),  -- now once its customer wants to pay
  pay_by       INTEGER NOT NULL,         -- when it is cancelled if it is not paid
  version      INTEGER NOT NULL,         -- counts its events
  trace_id     TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  CHECK (reason = '' OR status = 'CANCELLED')
) STRICT, WITHOUT ROWID;
-- What is asked again and again: which orders are on their way, oldest first.
CREATE INDEX IF NOT EXISTS i_order_open ON t_order (created_at) WHERE status NOT IN ('COMPLETED', 'CANCELLED');
CREATE TABLE IF NOT EXISTS t_order_item (
  order_id TEXT    NOT NULL,
  sku      TEXT    NOT NULL,
  qty      INTEGER NOT NULL CHECK (qty > 0),
  PRIMARY KEY (order_id, sku)
) STRICT, WITHOUT ROWID;
