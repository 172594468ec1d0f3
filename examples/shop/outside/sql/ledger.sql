-- What an outside system has done. Amounts are cents, times microseconds since 1970, UTC.
CREATE TABLE IF NOT EXISTS entry (
  idempotency_key TEXT    PRIMARY KEY,  -- a refund has the key of its void, a blank and refund
  kind            TEXT    NOT NULL CHECK (kind IN ('capture', 'decline', 'void', 'refund', 'coupon', 'revocation', 'shipment', 'cancellation')),
  order_id        TEXT    NOT NULL,
  customer_id     TEXT    NOT NULL,     -- empty: nobody has named it
  amount_cents    INTEGER NOT NULL CHECK (amount_cents >= 0),
  request_hash    BLOB    NOT NULL,     -- of path and body
  answer_status   INTEGER NOT NULL,
  answer_body     TEXT    NOT NULL,
  created_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS i_entry_order ON entry (order_id);
-- How often the system really misbehaved, over all its lives.
CREATE TABLE IF NOT EXISTS misbehaved (
  mode  TEXT    PRIMARY KEY,
  times INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
