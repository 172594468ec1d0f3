-- What the checks of a drill take from the order service, by the names of its scratch tables.
-- name: orders
SELECT order_id, request_key, customer_id, status, amount_cents, pay, version, created_at, updated_at FROM t_order;
-- name: order_items
SELECT order_id, sku, qty FROM t_order_item;
