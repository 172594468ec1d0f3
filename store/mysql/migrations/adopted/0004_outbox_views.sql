-- +goose NO TRANSACTION
-- +goose Up
-- What people see of the outbox. Nothing of it is stored: it follows from the
-- newest checkpoint and the side tables, so it is true at each commit.

-- Here is what stands in the file of this name, from "-- The cursors of the newest" to "WHERE o.first_id IS NOT NULL".

-- Each event and its status: PENDING, SENT, RETRY, DEAD or DISCARDED. The
-- status that the table itself has tells of what others have done: sent, given
-- up, taken in hand (not sent yet), or something that nobody sends.
-- Here is what stands in the file of this name, from "CREATE OR REPLACE VIEW v_outbox_event" to "    WHEN t.id IS NOT NULL".
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
-- Here is what stands in the file of this name, from "    WHEN e.id <= coalesce(o.`cursor`" to "DROP VIEW IF EXISTS v_outbox_reader".
