package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// upsertsOnPostgres do both in one statement.
func upsertsOnPostgres() applier { return upserts(scripted(consumeLogPostgres), applyRawOnPostgres) }

// consumeLogPostgres is the log of those that have none of their own.
const consumeLogPostgres = `CREATE TABLE consume_log (consumer_group text, event_id text, event_type text NOT NULL, processed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
 PRIMARY KEY (consumer_group, event_id))`

const applyBatchPostgres = `WITH given AS (
  SELECT DISTINCT ON (event_id) event_id, key FROM unnest($1::text[], $2::text[]) AS g(event_id, key)
), fresh AS (
  INSERT INTO consume_log (consumer_group, event_id, event_type) SELECT 'bench', event_id, '` + eventType + `' FROM given ON CONFLICT DO NOTHING RETURNING event_id
)
INSERT INTO account (key, amount) SELECT key, count(*) FROM given JOIN fresh USING (event_id) GROUP BY key ORDER BY key
ON CONFLICT (key) DO UPDATE SET amount = account.amount + excluded.amount`

func applyRawOnPostgres(ctx context.Context, url string, d delivery) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	ids, keys := make([]string, 0, 1000), make([]string, 0, 1000)
	for rest := d.events; len(rest) > 0; {
		ids, keys = ids[:0], keys[:0]
		n := min(1000, len(rest))
		for _, e := range rest[:n] {
			ids, keys = append(ids, e.ID), append(keys, e.AggregateID)
		}
		if _, err := conn.Exec(ctx, applyBatchPostgres, ids, keys); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
