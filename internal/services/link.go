package services

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Link is what leads to a server: it passes bytes on. It ends with the test.
type Link struct {
	listener net.Listener
	to       atomic.Value // string
	delay    atomic.Int64
	group    sync.WaitGroup
}

// NewLink listens on a port of its own for who wants to get to host:port.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{listener: listener}
	l.Move(to)
	l.group.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.group.Wait()
	})
	return l
}

// Addr is the host:port at which it listens.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Move lets connections that are made from now on lead elsewhere, as those to a
// name whose address is changed do.
func (l *Link) Move(to string) { l.to.Store(to) }

// Delay lets bytes arrive later.
func (l *Link) Delay(by time.Duration) { l.delay.Store(int64(by)) }

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", l.to.Load().(string))
		if err != nil {
			_ = client.Close()
			continue
		}
		l.group.Go(func() { l.pass(there, client) })
		l.group.Go(func() { l.pass(client, there) })
	}
}

func (l *Link) pass(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		time.Sleep(time.Duration(l.delay.Load()))
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			return
		}
	}
}
