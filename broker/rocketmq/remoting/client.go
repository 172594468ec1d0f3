package remoting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Config shapes a Client. The zero value works.
type Config struct {
	// Dial makes connections. Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS encrypts them. Defaults to none.
	TLS *tls.Config
	// AccessKey and SecretKey sign each request. Default to none.
	AccessKey, SecretKey string
	// DialTimeout bounds the making of a connection. Defaults to 3 s.
	DialTimeout time.Duration
	// Timeout bounds a request whose context has no end. Defaults to 5 s.
	Timeout time.Duration
	// IdleFor is how long a connection is kept unused; servers end them after two
	// minutes. Defaults to one minute.
	IdleFor time.Duration
	// Requests gets what servers ask of us, with the address of who asks. It must
	// not block: answers to us wait behind it. Defaults to nothing.
	Requests func(addr string, cmd Command)
}

func (c Config) withDefaults() Config {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 3 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Requests == nil {
		c.Requests = func(string, Command) {}
	}
	if c.IdleFor <= 0 {
		c.IdleFor = time.Minute
	}
	return c
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the client is closed")

// NotSentError is a failure before anything was sent: the server does not have the
// request. Of any other failure that is not known.
type NotSentError struct{ Err error }

func (n *NotSentError) Error() string { return "not sent: " + n.Err.Error() }
func (n *NotSentError) Unwrap() error { return n.Err }

// Client asks servers, by one connection to each, which is made on first use and
// again after it has ended. Its methods may be called from several goroutines.
type Client struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	at     map[string]*place
	life   context.Context
	end    context.CancelFunc
	calls  sync.WaitGroup
}

// place is one server. Who dials holds its lock, which others wait for.
type place struct {
	dialing chan struct{}
	conn    *conn
}

// New returns a client without connections.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg.withDefaults(), at: map[string]*place{}}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Close ends all connections and waits for the calls that used them.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.calls.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.at {
		if p.conn != nil {
			p.conn.end(ErrClosed)
			p.conn.reading.Wait()
		}
	}
}

// Ask sends a request to the server at addr, host:port, and waits for its answer
// until ctx ends, or Config.Timeout has passed where ctx has no end. An answer that
// refuses is no error. What failed before it was sent is a *NotSentError.
func (c *Client) Ask(ctx context.Context, addr string, cmd Command) (Answer, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return Answer{}, &NotSentError{ErrClosed}
	}
	p := c.at[addr]
	if p == nil {
		p = &place{dialing: make(chan struct{}, 1)}
		c.at[addr] = p
	}
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()
	if _, is := ctx.Deadline(); !is {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	conn, err := c.connect(ctx, p, addr)
	if err != nil {
		return Answer{}, &NotSentError{fmt.Errorf("connect to %s: %w", addr, err)}
	}
	a, sent, err := conn.ask(ctx, c.sign(cmd))
	switch {
	case err == nil:
		return a, nil
	case sent:
		return a, fmt.Errorf("ask %s: %w", addr, err)
	}
	return a, &NotSentError{fmt.Errorf("ask %s: %w", addr, err)}
}

func (c *Client) connect(ctx context.Context, p *place, addr string) (*conn, error) {
	select {
	case p.dialing <- struct{}{}:
		defer func() { <-p.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.conn != nil && p.conn.idle(c.cfg.IdleFor) {
		p.conn.end(errIdle)
	}
	if p.conn != nil && !p.conn.ended() {
		p.conn.use() // so that the next does not find it idle before we have sent
		return p.conn, nil
	}
	if p.conn != nil {
		p.conn.reading.Wait()
		p.conn = nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	wire, err := c.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.cfg.TLS != nil {
		if wire, err = c.encrypt(ctx, wire, addr); err != nil {
			return nil, err
		}
	}
	p.conn = newConn(wire, c.cfg.Timeout/2, func(cmd Command) { c.cfg.Requests(addr, cmd) })
	return p.conn, nil
}

func (c *Client) encrypt(ctx context.Context, wire net.Conn, addr string) (net.Conn, error) {
	cfg := c.cfg.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(wire, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = wire.Close()
		return nil, err
	}
	return secure, nil
}
