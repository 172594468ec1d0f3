package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is the life of one connection. What was asked in one session is
// never answered in the next.
type session struct {
	b    *Broker
	conn *amqp.Connection
	wire *wire
	// gone is closed when the connection has ended, by cause.
	gone  chan struct{}
	cause error

	mu sync.Mutex
	// blocked is closed when a broker that takes nothing does so again; nil
	// while it takes.
	blocked chan struct{}
	why     string
}

// wire is the connection below AMQP. A read that fails ends it at once: the
// client would first wait for a write that hangs.
type wire struct{ net.Conn }

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		_ = w.Close()
	}
	return n, err
}

// dial makes a connection to one host. It blocks until the broker has let us
// in, or ctx is done.
func (b *Broker) dial(ctx context.Context, host, use string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	raw, err := b.cfg.Dial(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	w := &wire{raw}
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	if b.at.tls != nil {
		secure := tls.Client(w, b.serverName(host))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("encrypt: %w", err)
		}
		w = &wire{secure}
	}
	properties := amqp.Table{"product": "Settle", "connection_name": b.cfg.Name + " " + use}
	conn, err := amqp.Open(w, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: b.at.user, Password: b.at.password}},
		Vhost:      b.at.vhost,
		ChannelMax: maxChannels,
		FrameSize:  frameBytes,
		Heartbeat:  b.cfg.Heartbeat,
		Properties: properties,
		Locale:     "en_US",
	})
	if err != nil {
		_ = raw.Close()
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return &session{b: b, conn: conn, wire: w, gone: make(chan struct{})}, nil
}

func (b *Broker) serverName(host string) *tls.Config {
	c := b.at.tls.Clone()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(host)
	}
	return c
}

// watch follows the session until it ends or ctx does, which ends it.
func (s *session) watch(ctx context.Context, tell func(blocked bool, why string)) {
	defer s.end()
	closes := s.conn.NotifyClose(make(chan *amqp.Error, 1))
	blocks := s.conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	for {
		select {
		case b, ok := <-blocks:
			if !ok {
				blocks = nil
				continue
			}
			if s.setBlocked(b.Active, b.Reason) {
				tell(b.Active, b.Reason)
			}
		case err := <-closes:
			s.cause = errLost
			if err != nil {
				s.cause = fmt.Errorf("%w: %w", errLost, err)
			}
			return
		case <-ctx.Done():
			s.cause = errLost
			_ = s.conn.CloseDeadline(time.Now().Add(s.b.cfg.Timeout))
			return
		}
	}
}

func (s *session) end() {
	_ = s.wire.Close()
	s.setBlocked(false, "")
	close(s.gone)
}

// setBlocked reports whether that was news.
func (s *session) setBlocked(is bool, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is == (s.blocked != nil) {
		return false
	}
	s.why = why
	if is {
		s.blocked = make(chan struct{})
		return true
	}
	close(s.blocked)
	s.blocked = nil
	return true
}

// closed returns nil while the broker takes messages, and what is closed when
// it does again.
func (s *session) closed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked
}

// blockedBy says why the broker takes nothing, if it does not.
func (s *session) blockedBy() (why string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why, s.blocked != nil
}

// within ends the session if requests are not answered in time, which fails
// them: the client itself waits for ever. A blocked broker reads no requests,
// and is not gone.
func (s *session) within(requests func() error) error {
	timer := time.AfterFunc(s.b.cfg.Timeout, func() {
		if _, is := s.blockedBy(); !is {
			_ = s.wire.Close()
		}
	})
	defer timer.Stop()
	return requests()
}

// channel opens a channel and prepares it.
func (s *session) channel(prepare func(ch *amqp.Channel) error) (*amqp.Channel, error) {
	var ch *amqp.Channel
	err := s.within(func() (err error) {
		if ch, err = s.conn.Channel(); err != nil {
			return err
		}
		if err = prepare(ch); err != nil {
			_ = ch.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ch, nil
}
