-- What the checks of a drill take from the inventory service, by the names of its scratch tables.
-- name: stock
SELECT sku, initial_qty, available, reserved, sold FROM t_stock;
-- name: stock_ledger
SELECT CONCAT(cause_event_id, '/', sku, '/', kind) AS ledger_id, sku, kind, d_available, d_reserved, d_sold, CONCAT(order_id, '/', sku) AS reservation_id, cause_event_id, created_at FROM t_stock_ledger;
-- name: reservations
SELECT CONCAT(order_id, '/', sku) AS reservation_id, order_id, sku, qty, state, created_at, updated_at FROM t_reservation_line;
