-- What the checks of a drill take from the marketing service, by the names of its scratch tables.
-- name: rewards
SELECT order_id, state, points, coupon, updated_at FROM t_reward;
-- name: points_ledger
SELECT cause_event_id, kind, customer_id, order_id, points FROM t_points_ledger;
