-- The order service's own tables. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
CREATE TABLE IF NOT EXISTS t_order (
  order_id     VARCHAR(191) PRIMARY KEY,
  request_key  VARCHAR(191) NOT NULL UNIQUE,  -- the client's Idempotency-Key
  request_hash VARBINARY(32) NOT NULL,         -- of what was asked for: the same key with another order is refused
  customer_id  VARCHAR(191) NOT NULL,
  amount_cents BIGINT  NOT NULL CHECK (amount_cents >= 0),
  status       VARCHAR(191) NOT NULL CHECK (status IN ('CREATED', 'RESERVED', 'APPROVED', 'CONFIRMED', 'PAID', 'COMPLETED', 'CANCELLED')),
  reason       VARCHAR(2000) NOT NULL DEFAULT '',  -- why it was cancelled
  pay          VARCHAR(191) NOT NULL CHECK (pay IN ('now', 'later')),  -- now once its customer wants to pay
  pay_by       BIGINT  NOT NULL,         -- when it is cancelled if it is not paid
  version      BIGINT  NOT NULL,         -- counts its events
  trace_id     VARCHAR(191) NOT NULL,
  created_at   BIGINT  NOT NULL,
  updated_at   BIGINT  NOT NULL,
  CHECK (reason = '' OR status = 'CANCELLED'),
  -- What is asked again and again: which orders are on their way. There are no indexes of some rows here.
  INDEX i_order_open (status, created_at)
);
CREATE TABLE IF NOT EXISTS t_order_item (
  order_id VARCHAR(191) NOT NULL,
  sku      VARCHAR(191) NOT NULL,
  qty      BIGINT  NOT NULL CHECK (qty > 0),
  PRIMARY KEY (order_id, sku)
);
