package embedded

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger passes the server's own log on. A fatal entry is kept for Start; the
// server goes on after it, unusable. A write that failed is told to Run: the
// log is the only place where the server says so.
type logger struct {
	log    *slog.Logger
	fatal  chan string
	broken chan struct{}
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }

func (l *logger) Errorf(format string, v ...any) {
	what := fmt.Sprintf(format, v...)
	l.log.Error(what)
	if !strings.Contains(what, "Critical write error") {
		return
	}
	select {
	case l.broken <- struct{}{}:
	default:
	}
}

func (l *logger) Fatalf(format string, v ...any) {
	why := fmt.Sprintf(format, v...)
	l.log.Error(why)
	select {
	case l.fatal <- why:
	default:
	}
}
