-- The inventory service's own tables. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS t_stock (
  sku         TEXT    PRIMARY KEY,
  initial_qty BIGINT  NOT NULL,  -- all that ever came in
  available   BIGINT  NOT NULL CHECK (available >= 0),
  reserved    BIGINT  NOT NULL CHECK (reserved >= 0),
  sold        BIGINT  NOT NULL CHECK (sold >= 0),
  CHECK (initial_qty = available + reserved + sold)
);
-- The reservation of a whole order: the aggregate whose events are numbered.
CREATE TABLE IF NOT EXISTS t_reservation (
  order_id   TEXT    PRIMARY KEY,
  state      TEXT    NOT NULL CHECK (state IN ('RESERVED', 'FAILED', 'PREPAID', 'BARRED', 'CONFIRMED', 'RELEASED')),
  version    BIGINT  NOT NULL,  -- counts its events
  updated_at BIGINT  NOT NULL
);
-- Its lines. INIT: asked for, nothing held.
CREATE TABLE IF NOT EXISTS t_reservation_line (
  order_id   TEXT    NOT NULL,
  sku        TEXT    NOT NULL,
  qty        BIGINT  NOT NULL CHECK (qty > 0),
  state      TEXT    NOT NULL CHECK (state IN ('INIT', 'RESERVED', 'CONFIRMED', 'RELEASED')),
  created_at BIGINT  NOT NULL,
  updated_at BIGINT  NOT NULL,
  PRIMARY KEY (order_id, sku)
);
-- Every movement of stock, with the event that caused it. That an event moves
-- an article once in each way is also a rule of the table.
CREATE TABLE IF NOT EXISTS t_stock_ledger (
  cause_event_id TEXT    NOT NULL,
  sku            TEXT    NOT NULL,
  kind           TEXT    NOT NULL CHECK (kind IN ('RESERVE', 'SELL', 'RELEASE', 'RETURN')),
  order_id       TEXT    NOT NULL,
  d_available    BIGINT  NOT NULL,
  d_reserved     BIGINT  NOT NULL,
  d_sold         BIGINT  NOT NULL,
  created_at     BIGINT  NOT NULL,
  CHECK (d_available + d_reserved + d_sold = 0),
  PRIMARY KEY (cause_event_id, sku, kind)
);
