-- +goose Up
-- A person may give up on an event: its compensation runs in place of its
-- handler. New with it: status COMPENSATED of t_message_consume_log, states
-- COMPENSATING and COMPENSATED of t_dead_letter, action dlq.compensate of t_audit.

-- NULL: the event is to be handled. Otherwise it is to be compensated, and this
-- is by whom and why, as the log will say.
ALTER TABLE t_consume_retry ADD COLUMN compensate TEXT;

-- +goose Down
ALTER TABLE t_consume_retry DROP COLUMN compensate;
