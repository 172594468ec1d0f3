package nats

import (
	"context"
	"errors"
	"sync"
)

var errDisconnected = errors.New("the connection to the broker was lost")

// link follows the state of a connection. A session is the time between a
// connect and the next disconnect; what was asked in one session is never
// answered in the next, so a call ends with its session.
type link struct {
	mu      sync.Mutex
	session context.Context
	end     context.CancelCauseFunc
	// up is closed while connected.
	up chan struct{}
}

func newLink() *link {
	l := &link{up: make(chan struct{})}
	l.session, l.end = context.WithCancelCause(context.Background())
	l.end(errDisconnected)
	return l
}

func (l *link) rise() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(errDisconnected)
	l.session, l.end = context.WithCancelCause(context.Background())
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

func (l *link) fall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(errDisconnected)
	select {
	case <-l.up:
		l.up = make(chan struct{})
	default:
	}
}

func (l *link) current() (session context.Context, up chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.up
}

// await returns the session once connected, or ctx's error.
func (l *link) await(ctx context.Context) (context.Context, error) {
	for {
		session, up := l.current()
		if session.Err() == nil {
			return session, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// within returns a context that ends with ctx and with the session.
func within(ctx, session context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(session, func() { cancel(context.Cause(session)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
