package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ProxyConfig describes a proxy.
type ProxyConfig struct {
	// Listen is its address. Defaults to a free port on loopback.
	Listen string
	// Target is where connections lead. Defaults to none: each connection says
	// so itself, as those of Proxy.Dial do; a broker of several nodes tells its
	// clients where they are.
	Target string
	// Witness tells acknowledgements among the answers of one connection.
	// Defaults to none: no answer can be lost.
	Witness func() Witness
}

// Proxy passes TCP connections on loopback to a broker, and misbehaves when
// told: it cuts all connections, or swallows the broker's answers.
type Proxy struct {
	ln  net.Listener
	cfg ProxyConfig

	mu      sync.Mutex
	links   map[*link]struct{}
	refuse  time.Time // until then new connections are reset at once
	losing  *loss     // not nil while answers are swallowed
	closing bool

	passed, cuts atomic.Int64
}

// link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn
	witness        Witness // guarded by Proxy.mu
}

// loss is a time in which answers are lost. Only those of links that carried
// an acknowledgement: others may be about to connect, and nobody publishes
// before that.
type loss struct {
	lossy map[*link]bool // links whose answers are lost from the first acknowledgement on
	seen  int
	found chan struct{} // closed when the first acknowledgement was swallowed
}

// OpenProxy listens for connections.
func OpenProxy(cfg ProxyConfig) (*Proxy, error) {
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Witness == nil {
		cfg.Witness = func() Witness { return &TextWitness{} }
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for proxy: %w", err)
	}
	return &Proxy{ln: ln, cfg: cfg, links: map[*link]struct{}{}}, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Passed is how many bytes went through in both directions.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

// Cuts is how many connections were cut.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Run passes connections until ctx is done, then closes all of them.
func (p *Proxy) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_ = p.ln.Close()
		p.mu.Lock()
		p.closing = true
		p.mu.Unlock()
		p.reset()
	})
	defer stop()
	var links sync.WaitGroup
	defer links.Wait()
	for {
		c, err := p.ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept at proxy: %w", err)
		case err != nil: // out of file descriptors, or gone before it was accepted
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		client := c.(*net.TCPConn)
		links.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	refused := time.Now().Before(p.refuse)
	p.mu.Unlock()
	if refused {
		abort(client)
		return
	}
	s, err := p.reach(client)
	if err != nil {
		abort(client)
		return
	}
	l := &link{client: client, server: s, witness: p.cfg.Witness()}
	p.mu.Lock()
	if p.closing || time.Now().Before(p.refuse) {
		p.mu.Unlock()
		l.abort()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var answers sync.WaitGroup
	answers.Go(func() { p.copy(l, l.server, l.client, true) })
	p.copy(l, l.client, l.server, false)
	answers.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// copy passes bytes one way until either side ends, then ends both.
func (p *Proxy) copy(l *link, from, to *net.TCPConn, answers bool) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.swallow(l, buf[:n], answers) {
			p.passed.Add(int64(n))
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// swallow reports whether b is to be lost: it is an answer, and its turn.
func (p *Proxy) swallow(l *link, b []byte, answer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !answer {
		l.witness.Asked(b)
		return false
	}
	n := l.witness.Answered(b)
	w := p.losing
	if w == nil {
		return false
	}
	if n > 0 {
		if w.seen == 0 {
			close(w.found)
		}
		w.seen += n
		w.lossy[l] = true
	}
	return w.lossy[l]
}

// Cut resets all connections and refuses new ones for d. It returns how many
// were cut; when there were none it does nothing, so that whoever tries again
// to cut does not keep everybody out.
func (p *Proxy) Cut(d time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.links) > 0 {
		p.refuse = time.Now().Add(d)
	}
	return p.resetLocked()
}

// LoseAnswers swallows what the broker answers on each connection from the
// first acknowledgement on, while everything else passes, until one was lost
// and a little longer (so that the sender has more in doubt than one message),
// or ctx is done; then it cuts all connections. It returns how many
// acknowledgements were lost.
func (p *Proxy) LoseAnswers(ctx context.Context, longer time.Duration) int {
	w := &loss{lossy: map[*link]bool{}, found: make(chan struct{})}
	p.mu.Lock()
	if p.losing != nil {
		p.mu.Unlock()
		return 0
	}
	p.losing = w
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-w.found:
		select {
		case <-ctx.Done():
		case <-time.After(longer):
		}
	}
	// Connections end in the instant in which answers pass again: no client
	// gets the rest of a conversation whose beginning was lost.
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = nil
	p.resetLocked()
	return w.seen
}

// reset aborts every connection.
func (p *Proxy) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resetLocked()
}

func (p *Proxy) resetLocked() int {
	n := len(p.links)
	for l := range p.links {
		l.abort()
		delete(p.links, l)
	}
	p.cuts.Add(int64(n))
	return n
}

func (l *link) abort() {
	abort(l.client)
	abort(l.server)
}

// abort closes c with a reset instead of an orderly end.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
