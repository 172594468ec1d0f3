package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes TCP connections on loopback to a broker, and misbehaves when
// told: it cuts all connections, or swallows the broker's answers.
type Proxy struct {
	ln     net.Listener
	target string

	mu      sync.Mutex
	links   map[*link]struct{}
	refuse  time.Time // until then new connections are reset at once
	losing  *loss     // not nil while answers are swallowed
	closing bool

	passed, cuts atomic.Int64
}

// link is one connection through the proxy.
type link struct{ client, server *net.TCPConn }

// loss is a time in which answers are lost. Only those of links that carried
// a witness: others may be about to connect, and nobody publishes before that.
type loss struct {
	witness []byte
	tails   map[*link][]byte // bytes that may be the beginning of a witness
	lossy   map[*link]bool   // links whose answers are lost from the first witness on
	seen    int
	found   chan struct{} // closed when the first witness was swallowed
}

// OpenProxy listens on addr (port 0 picks one) for connections to target.
func OpenProxy(addr, target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for proxy: %w", err)
	}
	return &Proxy{ln: ln, target: target, links: map[*link]struct{}{}}, nil
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
	s, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		abort(client)
		return
	}
	l := &link{client: client, server: s.(*net.TCPConn)}
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
		if n > 0 && !(answers && p.swallow(l, buf[:n])) {
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

// swallow reports whether b, an answer, is to be lost.
func (p *Proxy) swallow(l *link, b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.losing
	if w == nil {
		return false
	}
	seen := append(w.tails[l], b...)
	if n := bytes.Count(seen, w.witness); n > 0 {
		if w.seen == 0 {
			close(w.found)
		}
		w.seen += n
		w.lossy[l] = true
		seen = seen[bytes.LastIndex(seen, w.witness)+len(w.witness):]
	}
	w.tails[l] = bytes.Clone(seen[max(0, len(seen)-len(w.witness)+1):])
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
// first answer on that contains witness, while everything else passes, until
// one was lost and a little longer (so that the sender has more in doubt than
// one message), or ctx is done; then it cuts all connections. It returns how
// many witnesses were lost.
func (p *Proxy) LoseAnswers(ctx context.Context, witness string, longer time.Duration) int {
	w := &loss{witness: []byte(witness), tails: map[*link][]byte{}, lossy: map[*link]bool{}, found: make(chan struct{})}
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
