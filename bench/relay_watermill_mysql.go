package main

import (
	"context"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
)

func watermillOnMySQL() contender      { return watermillDefault(watermillMySQL()) }
func watermillLargeOnMySQL() contender { return watermillLarge(watermillMySQL()) }

// insertWatermillMySQL takes the columns in the order of what a layout is given.
const insertWatermillMySQL = `INSERT INTO ` + watermillTable + ` (uuid, metadata, payload) `

// watermillMySQL reads serializably, which is its default and the only level
// that its authors call safe: its query locks the end of the table against
// inserts until the batch is done. The ids of inserts that wait there are given
// before, and who goes on first need not have the lowest: the others are passed,
// and lost.
func watermillMySQL() watermillOn {
	return watermillOn{
		schema:  func(batch int) wsql.SchemaAdapter { return wsql.DefaultMySQLSchema{SubscribeBatchSize: batch} },
		offsets: wsql.DefaultMySQLOffsetsAdapter{},
		open: func(_ context.Context, at string) (wsql.Beginner, func(), error) {
			cfg, err := mysqlConfig(at)
			if err != nil {
				return nil, nil, err
			}
			db, err := connectorOf(cfg)
			if err != nil {
				return nil, nil, err
			}
			return wsql.BeginnerFromStdSQL(db), func() { _ = db.Close() }, nil
		},
		fill:   fillMySQL(watermillTable, insertWatermillMySQL, `(%[1]s, JSON_OBJECT('event_type', '`+eventType+`', 'aggregate_type', 'order', 'aggregate_id', %[2]s), %[3]s)`),
		insert: insertWatermillMySQL + `VALUES (?, JSON_OBJECT('event_type', '` + eventType + `', 'aggregate_type', 'order', 'aggregate_id', ?), ?)`,
	}
}
