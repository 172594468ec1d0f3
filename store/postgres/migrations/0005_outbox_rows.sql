-- +goose Up
-- Through these two the rest of the schema reads the outbox, so that a table of
-- another shape can be read in its place. Their text names the schema, because
-- they run in the place of a query, by the caller's search_path; the server puts
-- the query in their stead, so they cost nothing and indexes are used.
-- +goose StatementBegin
DO $do$
BEGIN
  -- The table that producers insert into.
  EXECUTE format($f$
CREATE OR REPLACE FUNCTION settle_outbox_table() RETURNS regclass LANGUAGE sql STABLE AS $b$ SELECT '%1$I.t_outbox_event'::regclass $b$ $f$, current_schema());

  -- Its rows. readable: whether the relay may take the row to be sent;
  -- status_now: what the table itself says of it, where it says anything.
  EXECUTE format($f$
CREATE OR REPLACE FUNCTION settle_outbox_row() RETURNS TABLE (
  id bigint, event_id text, event_type text, aggregate_type text, aggregate_id text, aggregate_seq bigint, biz_key text, trace_id text, causation_id text,
  supersedes text, topic text, version integer, content_type text, occurred_at timestamptz, appended_at timestamptz, not_before timestamptz,
  headers jsonb, payload bytea, status_now text, readable boolean) LANGUAGE sql STABLE ROWS 1000000 AS $b$
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_seq, e.biz_key, e.trace_id, e.causation_id,
  e.supersedes, e.topic, e.version, e.content_type, e.occurred_at, e.appended_at, e.not_before, e.headers, e.payload, NULL::text, true
FROM %1$I.t_outbox_event e $b$ $f$, current_schema());
END $do$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION settle_outbox_row;
DROP FUNCTION settle_outbox_table;
