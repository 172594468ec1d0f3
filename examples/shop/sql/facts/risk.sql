-- What the checks of a drill take from the risk service, by the names of its scratch tables.
-- name: assessments
SELECT order_id, state, updated_at FROM t_assessment;
