package dial

import (
	"context"
	"log/slog"

	"github.com/settlemq/settle/broker/nats/embedded"
)

// ErrInUse means that another process serves the broker's directory.
var ErrInUse = embedded.ErrInUse

// ServerConfig shapes the broker that ServeBroker runs. Only Dir is required.
type ServerConfig struct {
	// Dir keeps the messages; one server at a time uses it.
	Dir string
	// Port on 127.0.0.1. Defaults to a free one; see Ready.
	Port int
	// Token is what clients have to show. Defaults to a random one; see Ready.
	Token string
	// Ready is called with the URL for clients, token included, once they can
	// connect. Defaults to nil: nothing.
	Ready func(url string)
	// Logger takes warnings. Defaults to none.
	Logger *slog.Logger
}

// ServeBroker runs an embedded JetStream server until ctx is done, then
// returns nil. An error says why it did not start (ErrInUse among others) or
// that it ended by itself.
//
// Crash here: whatever it acknowledged is on disk and is there again when the
// next server opens the directory.
func ServeBroker(ctx context.Context, cfg ServerConfig) error {
	s, err := embedded.Start(embedded.Config{Dir: cfg.Dir, Port: cfg.Port, Token: cfg.Token, Log: cfg.Logger})
	if err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(s.URL())
	}
	return s.Run(ctx)
}
