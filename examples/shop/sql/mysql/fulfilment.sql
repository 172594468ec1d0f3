-- The fulfilment service's own tables. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
CREATE TABLE IF NOT EXISTS t_shipment (
  order_id   VARCHAR(191) PRIMARY KEY,
  state      VARCHAR(191) NOT NULL CHECK (state IN ('SHIPPED', 'FAILED', 'BARRED')),
  version    BIGINT  NOT NULL,            -- counts its events
  tracking   VARCHAR(191) NOT NULL DEFAULT '', -- the carrier's code; empty when nothing is shipped
  updated_at BIGINT  NOT NULL
);
