package kafka

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger passes on what the client warns of.
type logger struct{ to *slog.Logger }

// Level implements kgo.Logger.
func (l logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level == kgo.LogLevelError || level == kgo.LogLevelWarn {
		l.to.Warn("kafka client: "+msg, keyvals...)
	}
}
