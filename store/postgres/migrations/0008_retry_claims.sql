-- +goose Up
-- What is due is given to one member of the group, so that each attempt is made
-- and counted once. Whoever does nothing with it loses it when the time is over.
ALTER TABLE t_consume_retry ADD COLUMN claimed_by text;
ALTER TABLE t_consume_retry ADD COLUMN claimed_until timestamptz;

-- +goose Down
ALTER TABLE t_consume_retry DROP COLUMN claimed_until;
ALTER TABLE t_consume_retry DROP COLUMN claimed_by;
