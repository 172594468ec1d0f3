package embedded

import (
	"fmt"
	"log/slog"
)

// logger passes the server's own log on. A fatal entry is kept for Start; the
// server goes on after it, unusable.
type logger struct {
	log   *slog.Logger
	fatal chan string
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }

func (l *logger) Fatalf(format string, v ...any) {
	why := fmt.Sprintf(format, v...)
	l.log.Error(why)
	select {
	case l.fatal <- why:
	default:
	}
}
