-- The payment service's own table. Times are microseconds since 1970, UTC.
-- Text is compared byte by byte: so is the database's collation when the shop makes it.
CREATE TABLE IF NOT EXISTS t_payment (
  order_id     VARCHAR(191) PRIMARY KEY,
  state        VARCHAR(191) NOT NULL CHECK (state IN ('OPEN', 'ASKED', 'DUE', 'CAPTURED', 'DECLINED', 'VOIDED', 'REFUNDED', 'BARRED')),
  version      BIGINT  NOT NULL,  -- counts its events
  amount_cents BIGINT  NOT NULL DEFAULT 0 CHECK (amount_cents >= 0),
  declined     VARCHAR(2000) NOT NULL DEFAULT '',  -- why the provider refused
  updated_at   BIGINT  NOT NULL,
  CHECK (declined = '' OR state = 'DECLINED')
);
