-- +goose Up
-- Through these two the rest of the schema reads the outbox. They are empty
-- until the table is looked at; then the columns that it has decide their text.
-- +goose StatementBegin
CREATE FUNCTION settle_outbox_table() RETURNS regclass LANGUAGE sql STABLE AS $b$ SELECT NULL::regclass $b$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION settle_outbox_row() RETURNS TABLE (
  id bigint, event_id text, event_type text, aggregate_type text, aggregate_id text, aggregate_seq bigint, biz_key text, trace_id text, causation_id text,
  supersedes text, topic text, version integer, content_type text, occurred_at timestamptz, appended_at timestamptz, not_before timestamptz,
  headers jsonb, payload bytea, status_now text, readable boolean) LANGUAGE sql STABLE ROWS 1000000 AS $b$
SELECT NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::integer, NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::jsonb, NULL::bytea, NULL::text, NULL::boolean
WHERE false $b$;
-- +goose StatementEnd

-- What stands in a column of text as JSON; what is not becomes a JSON string,
-- so that one bad row is read as a bad row and does not end the query.
-- +goose StatementBegin
CREATE FUNCTION settle_json(t text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $b$
BEGIN
  RETURN t::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN to_jsonb(left(t, 100));
END $b$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION settle_json;
DROP FUNCTION settle_outbox_row;
DROP FUNCTION settle_outbox_table;
