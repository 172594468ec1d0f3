package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
)

// watermillDeduplicator is Watermill's middleware before a handler with a
// transaction of its own. The repository is the default: in memory, so that it
// costs nothing and ends with the process. The default key, Adler-32 of the
// payload, takes different messages for the same; here it is the message's id.
func watermillDeduplicator() applier {
	return applier{name: "watermill", title: "Watermill deduplicator (in memory), transaction per message", apply: applyWatermill, share: 40}
}

func applyWatermill(ctx context.Context, url string, d delivery) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	seen, err := middleware.NewMapExpiringKeyRepository(time.Minute)
	if err != nil {
		return err
	}
	once := &middleware.Deduplicator{
		KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil },
		Repository: seen,
		Timeout:    time.Minute,
	}
	handle := once.Middleware(func(m *message.Message) ([]*message.Message, error) {
		tx, err := conn.Begin(m.Context())
		if err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback(m.Context()) }()
		if _, err := tx.Exec(m.Context(), addOne, m.Metadata.Get("aggregate_id")); err != nil {
			return nil, err
		}
		// Crash here: the id was remembered before; were the memory shared, the
		// message would be lost. After the commit, it is applied again.
		return nil, tx.Commit(m.Context())
	})
	for _, e := range d.events {
		m := message.NewMessage(e.ID, e.Payload)
		m.Metadata.Set("aggregate_id", e.AggregateID)
		m.SetContext(ctx)
		if _, err := handle(m); err != nil {
			return err
		}
	}
	return nil
}
