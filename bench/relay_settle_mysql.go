package main

import (
	"context"
	"errors"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
)

func settleOnMySQL() contender {
	return settleDefault(settleLayoutOnMySQL(migrate.LayoutFull), openLogOnMySQL)
}

func leanOnMySQL() contender {
	return settleLean(settleLayoutOnMySQL(migrate.LayoutLean), openLogOnMySQL)
}

// settleLayoutOnMySQL is made by Settle itself.
func settleLayoutOnMySQL(of migrate.Layout) layout {
	l := logOnMySQL
	l.create = func(ctx context.Context, p *place) error { return makeSettleOnMySQL(ctx, p.url, of) }
	return l
}

// makeSettleOnMySQL does what settle migrate does, with --lean or without.
func makeSettleOnMySQL(ctx context.Context, at string, of migrate.Layout) error {
	schema, err := mysql.Schema(ctx, at, true)
	if err != nil {
		return err
	}
	if _, err = schema.Up(ctx); err == nil {
		_, err = schema.ChangeLayout(ctx, of)
	}
	return errors.Join(err, schema.Close())
}

func openLogOnMySQL(ctx context.Context, at string) (relay.Store, func() error, error) {
	store, err := mysql.Open(ctx, at, mysql.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store.Log(), store.Close, nil
}
