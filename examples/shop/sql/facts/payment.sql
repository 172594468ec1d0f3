-- What the checks of a drill take from the payment service, by the names of its scratch tables.
-- name: payments
SELECT order_id, state, amount_cents, updated_at FROM t_payment;
