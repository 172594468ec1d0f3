package rabbitmq

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxIdle bounds the lines that wait for their next use.
const maxIdle = 16

// line is a channel that publishes with confirms, for one courier at a time:
// the broker closes it for what one message is refused for, and nothing of
// others is in flight on it then.
type line struct {
	s       *session
	ch      *amqp.Channel
	returns chan amqp.Return
	closes  chan *amqp.Error
}

// take returns a line of a session.
func (b *Broker) take(s *session) (*line, error) {
	b.mu.Lock()
	for len(b.idle) > 0 {
		l := b.idle[len(b.idle)-1]
		b.idle = b.idle[:len(b.idle)-1]
		if l.s == s && !l.ch.IsClosed() {
			b.mu.Unlock()
			return l, nil
		}
	}
	b.mu.Unlock()
	l := &line{s: s, returns: make(chan amqp.Return, b.cfg.Window), closes: make(chan *amqp.Error, 1)}
	ch, err := s.channel(func(ch *amqp.Channel) error {
		ch.NotifyReturn(l.returns)
		ch.NotifyClose(l.closes)
		return ch.Confirm(false)
	})
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	l.ch = ch
	return l, nil
}

// put keeps a line for its next use. Nothing may be in flight on it.
func (b *Broker) put(l *line) {
	b.mu.Lock()
	keep := len(b.idle) < maxIdle && !l.ch.IsClosed()
	if keep {
		b.idle = append(b.idle, l)
	}
	b.mu.Unlock()
	if !keep {
		_ = l.ch.Close()
	}
}

// why waits until the line has closed, and says by what: it is closed for
// writing before its reason is known.
func (l *line) why() error {
	select {
	case err := <-l.closes:
		if err != nil {
			return err
		}
	case <-l.s.gone:
	}
	return errLost
}
