-- The fulfilment service's own tables. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS t_shipment (
  order_id   TEXT    PRIMARY KEY,
  state      TEXT    NOT NULL CHECK (state IN ('SHIPPED', 'FAILED', 'BARRED')),
  version    BIGINT  NOT NULL,            -- counts its events
  tracking   TEXT    NOT NULL DEFAULT '', -- the carrier's code; empty when nothing is shipped
  updated_at BIGINT  NOT NULL
);
