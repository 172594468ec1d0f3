package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// deduplicator is Watermill's middleware before a handler with a transaction of
// its own. The repository is the default: in memory, so that it costs nothing and
// ends with the process. The default key, Adler-32 of the payload, takes
// different messages for the same; here it is the message's id.
func deduplicator(apply func(context.Context, string, delivery) error) applier {
	return applier{name: "watermill", title: "Watermill deduplicator (in memory), transaction per message", apply: apply, share: 40}
}

// onceEach makes the effect of each message by add, in a transaction of its own.
func onceEach(ctx context.Context, d delivery, add func(ctx context.Context, key string) error) error {
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
		return nil, add(m.Context(), m.Metadata.Get("aggregate_id"))
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
