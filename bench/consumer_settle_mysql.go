package main

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
)

func settleEachOnMySQL() applier  { return settleEach(openInboxOnMySQL, addOneMySQL) }
func settleBatchOnMySQL() applier { return settleBatch(openInboxOnMySQL, addManyOnMySQL) }

func openInboxOnMySQL(ctx context.Context, at string) (settle.Inbox[*sql.Tx], func() error, error) {
	store, err := mysql.Open(ctx, at, mysql.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store.Inbox(), store.Close, nil
}
