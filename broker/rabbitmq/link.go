package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errLost ends what was in flight on a connection.
var errLost = errors.New("the connection to RabbitMQ was lost")

const (
	firstWait, lastWait = 100 * time.Millisecond, 5 * time.Second
)

// link keeps one connection up.
type link struct {
	b *Broker
	// use is publishing or consuming.
	use string

	mu      sync.Mutex
	now     *session
	up      chan struct{} // closed while there is a session
	trouble error
}

func newLink(b *Broker, use string) *link { return &link{b: b, use: use, up: make(chan struct{})} }

// keep holds the connection until ctx is done, and makes it anew for ever. It
// begins with first, if there is one.
func (l *link) keep(ctx context.Context, first *session) {
	s := first
	for wait := firstWait; ; {
		if s == nil {
			var err error
			if s, err = l.connect(ctx); err != nil {
				l.tell(ctx, err)
				if !pause(ctx, wait) {
					return
				}
				wait = min(2*wait, lastWait)
				continue
			}
		}
		wait = firstWait
		l.rise(s)
		s.watch(ctx, l.tellBlocked)
		l.fall()
		if ctx.Err() != nil {
			return
		}
		l.tell(ctx, s.cause)
		s = nil
	}
}

// connect tries every host once.
func (l *link) connect(ctx context.Context) (*session, error) {
	var all error
	for _, host := range l.b.at.hosts {
		s, err := l.b.dial(ctx, host, l.use)
		if err == nil {
			return s, nil
		}
		if all = errors.Join(all, fmt.Errorf("connect to RabbitMQ at %s: %w", host, explainRefusal(err, l.b.at))); ctx.Err() != nil {
			break
		}
	}
	return nil, all
}

// tell warns of what is new.
func (l *link) tell(ctx context.Context, err error) {
	l.mu.Lock()
	known := l.trouble != nil && l.trouble.Error() == err.Error()
	l.trouble = err
	l.mu.Unlock()
	if !known && ctx.Err() == nil {
		l.b.cfg.Log.Warn("no connection to RabbitMQ; connecting goes on", "connection", l.use, "error", err)
	}
}

func (l *link) tellBlocked(blocked bool, why string) {
	if blocked {
		l.b.cfg.Log.Warn("RabbitMQ takes no messages until its alarm ends; publishing waits", "connection", l.use, "reason", why)
		return
	}
	l.b.cfg.Log.Info("RabbitMQ takes messages again", "connection", l.use)
}

func (l *link) rise(s *session) {
	l.mu.Lock()
	again := l.trouble != nil
	l.now, l.trouble = s, nil
	close(l.up)
	l.mu.Unlock()
	if again {
		l.b.cfg.Log.Info("connected to RabbitMQ again", "connection", l.use)
	}
}

func (l *link) fall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.up = nil, make(chan struct{})
}

// await returns the session once connected, or why there is none when ctx ends.
func (l *link) await(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		s, up := l.now, l.up
		l.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, errors.Join(context.Cause(ctx), l.trouble)
		}
	}
}

// pause waits for d and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
