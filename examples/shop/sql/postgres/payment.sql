-- The payment service's own table. Times are microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS t_payment (
  order_id     TEXT    PRIMARY KEY,
  state        TEXT    NOT NULL CHECK (state IN ('OPEN', 'ASKED', 'DUE', 'CAPTURED', 'DECLINED', 'VOIDED', 'REFUNDED', 'BARRED')),
  version      BIGINT  NOT NULL,  -- counts its events
  amount_cents BIGINT  NOT NULL DEFAULT 0 CHECK (amount_cents >= 0),
  declined     TEXT    NOT NULL DEFAULT '',  -- why the provider refused
  updated_at   BIGINT  NOT NULL,
  CHECK (declined = '' OR state = 'DECLINED')
);
