-- The inventory service's own tables. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
CREATE TABLE IF NOT EXISTS t_stock (
  sku         VARCHAR(191) PRIMARY KEY,
  initial_qty BIGINT  NOT NULL,  -- all that ever came in
  available   BIGINT  NOT NULL CHECK (available >= 0),
  reserved    BIGINT  NOT NULL CHECK (reserved >= 0),
  sold        BIGINT  NOT NULL CHECK (sold >= 0),
  CHECK (initial_qty = available + reserved + sold)
);
-- The reservation of a whole order: the aggregate whose events are numbered.
CREATE TABLE IF NOT EXISTS t_reservation (
  order_id   VARCHAR(191) PRIMARY KEY,
  state      VARCHAR(191) NOT NULL CHECK (state IN ('RESERVED', 'FAILED', 'PREPAID', 'BARRED', 'CONFIRMED', 'RELEASED')),
  version    BIGINT  NOT NULL,  -- counts its events
  updated_at BIGINT  NOT NULL
);
-- Its lines. INIT: asked for, nothing held.
CREATE TABLE IF NOT EXISTS t_reservation_line (
  order_id   VARCHAR(191) NOT NULL,
  sku        VARCHAR(191) NOT NULL,
  qty        BIGINT  NOT NULL CHECK (qty > 0),
  state      VARCHAR(191) NOT NULL CHECK (state IN ('INIT', 'RESERVED', 'CONFIRMED', 'RELEASED')),
  created_at BIGINT  NOT NULL,
  updated_at BIGINT  NOT NULL,
  PRIMARY KEY (order_id, sku)
);
-- Every movement of stock, with the event that caused it. That an event moves
-- an article once in each way is also a rule of the table.
CREATE TABLE IF NOT EXISTS t_stock_ledger (
  cause_event_id VARCHAR(191) NOT NULL,
  sku            VARCHAR(191) NOT NULL,
  kind           VARCHAR(191) NOT NULL CHECK (kind IN ('RESERVE', 'SELL', 'RELEASE', 'RETURN')),
  order_id       VARCHAR(191) NOT NULL,
  d_available    BIGINT  NOT NULL,
  d_reserved     BIGINT  NOT NULL,
  d_sold         BIGINT  NOT NULL,
  created_at     BIGINT  NOT NULL,
  CHECK (d_available + d_reserved + d_sold = 0),
  PRIMARY KEY (cause_event_id, sku, kind)
);
