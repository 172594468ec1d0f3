-- +goose NO TRANSACTION
-- +goose Up
-- Here is what stands in the file of this name, from "-- How the outbox is divided" to "    WHEN t.id IS NOT NULL".
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
-- Here is what stands in the file of this name, from "    WHEN e.id <= coalesce(o.`cursor`" to "    WHEN t.id IS NOT NULL".
    WHEN e.status_now IN ('SENT', 'DEAD') THEN e.status_now
    WHEN e.status_now = 'OTHER' THEN 'DISCARDED'
    WHEN e.status_now = 'IN_FLIGHT' THEN 'PENDING'
    WHEN e.id <= (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) THEN 'PENDING'
    WHEN e.id <= coalesce(o.`cursor`, m.`cursor`, 0)
-- Here is what stands in the file of this name, from "      AND NOT EXISTS (SELECT 1 FROM v_outbox_open u" to "DROP TABLE IF EXISTS t_outbox_division".
