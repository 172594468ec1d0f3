package consumer

import (
	"context"
	"time"
)

// limit bounds handler calls in time. Calls that follow each other under one
// parent context share one derived context and one timer, which is wound up
// again for each: a context with a deadline for each event would cost more
// than many a handler.
type limit struct {
	parent, ctx context.Context
	cancel      context.CancelFunc
	timer       *time.Timer
}

// start returns the context of a call that may take d.
func (l *limit) start(parent context.Context, d time.Duration) context.Context {
	if l.ctx == nil || l.parent != parent {
		l.end()
		l.parent = parent
		l.ctx, l.cancel = context.WithCancel(parent)
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.cancel)
	} else {
		l.timer.Reset(d)
	}
	return l.ctx
}

// stop ends the call and reports whether its time had run out.
func (l *limit) stop() (expired bool) {
	if l.timer.Stop() {
		return false
	}
	l.end() // the next call must not inherit a context that is about to end
	return true
}

// end lets go of the context.
func (l *limit) end() {
	if l.cancel != nil {
		l.cancel()
	}
	l.parent, l.ctx, l.cancel, l.timer = nil, nil, nil, nil
}
