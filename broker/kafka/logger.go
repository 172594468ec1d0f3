package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger passes on what the client complains of, for who looks closely: it does
// at each try, and what follows from it is told once elsewhere.
type logger struct{ to *slog.Logger }

// Level implements kgo.Logger.
func (l logger) Level() kgo.LogLevel {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (l logger) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.to.Debug("kafka client: "+msg, keyvals...)
}
