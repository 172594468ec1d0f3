package main

import (
	"context"
	"errors"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

func settleOnPostgres() contender {
	return settleDefault(settleLayoutOnPostgres(migrate.LayoutFull), openLogOnPostgres)
}

func leanOnPostgres() contender {
	return settleLean(settleLayoutOnPostgres(migrate.LayoutLean), openLogOnPostgres)
}

// settleLayoutOnPostgres is made by Settle itself.
func settleLayoutOnPostgres(of migrate.Layout) layout {
	l := logOnPostgres
	l.create = func(ctx context.Context, p *place) error { return makeSettleOnPostgres(ctx, p.url, of) }
	return l
}

// makeSettleOnPostgres does what settle migrate does, with --lean or without.
func makeSettleOnPostgres(ctx context.Context, at string, of migrate.Layout) error {
	schema, err := postgres.Schema(ctx, at, true)
	if err != nil {
		return err
	}
	if _, err = schema.Up(ctx); err == nil {
		_, err = schema.ChangeLayout(ctx, of)
	}
	return errors.Join(err, schema.Close())
}

func openLogOnPostgres(ctx context.Context, at string) (relay.Store, func() error, error) {
	store, err := postgres.Open(ctx, at, postgres.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store.Log(), store.Close, nil
}
