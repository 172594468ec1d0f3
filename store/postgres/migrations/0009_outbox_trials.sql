-- +goose Up
-- When several leaders have died, what they had in hand is tried in groups, and
-- after each further death in groups of half the size.

-- How many rows, this one included, the last try of a suspect had; 0: none was made.
ALTER TABLE t_outbox_parked ADD COLUMN tried_together integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE t_outbox_parked DROP COLUMN tried_together;
