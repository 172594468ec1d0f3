-- What the checks of a drill take from the fulfilment service, by the names of its scratch tables.
-- name: shipments
SELECT order_id, state, tracking, updated_at FROM t_shipment;
