package nats_test

import (
	"context"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
)

func TestAPingIsAnsweredByAServerThatRuns(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := nats.Open(t.Context(), server.URL(), nats.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("a server that runs: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.Ping(ctx); err == nil {
		t.Error("a server that is gone answered")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Ping(t.Context()); err == nil {
		t.Error("a closed connection was answered")
	}
}
