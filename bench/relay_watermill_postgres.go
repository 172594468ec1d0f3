package main

import (
	"context"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/jackc/pgx/v5/pgxpool"
)

func watermillOnPostgres() contender      { return watermillDefault(watermillPostgres()) }
func watermillLargeOnPostgres() contender { return watermillLarge(watermillPostgres()) }

const (
	insertWatermillPostgres   = `INSERT INTO ` + watermillTable + ` (uuid, payload, metadata, transaction_id) `
	watermillMetadataPostgres = `json_build_object('event_type', '` + eventType + `', 'aggregate_type', 'order', 'aggregate_id', bench_key(n))`
)

func watermillPostgres() watermillOn {
	return watermillOn{
		schema:  func(batch int) wsql.SchemaAdapter { return wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch} },
		offsets: wsql.DefaultPostgreSQLOffsetsAdapter{},
		open: func(ctx context.Context, at string) (wsql.Beginner, func(), error) {
			pool, err := pgxpool.New(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			return wsql.BeginnerFromPgx(pool), pool.Close, nil
		},
		fill:   fillPostgres(watermillTable, insertWatermillPostgres+`SELECT bench_id(n), bench_payload(n, n % large = large - 1)::json, `+watermillMetadataPostgres+`, pg_current_xact_id()`),
		insert: insertWatermillPostgres + `SELECT $1, $3::text::json, json_build_object('event_type', '` + eventType + `', 'aggregate_type', 'order', 'aggregate_id', $2::text), pg_current_xact_id()`,
	}
}
