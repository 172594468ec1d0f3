-- What the checks of a drill take from an outside system's ledger, by the name of its scratch table.
-- name: outside_ledger
SELECT :service AS system, idempotency_key, kind, order_id, customer_id, amount_cents, created_at FROM entry;
