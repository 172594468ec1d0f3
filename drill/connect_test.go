package drill_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/drill"
)

// named starts a server that says its name to whoever connects.
func named(t *testing.T, name string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = io.WriteString(c, name+"\n")
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return ln.Addr().String()
}

func TestAProxyWithoutATargetLeadsEachConnectionWhereItAsksAndCutsThemAll(t *testing.T) {
	p, err := drill.OpenProxy(drill.ProxyConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	dial := drill.DialThrough(p.Addr())
	var open []net.Conn
	for _, name := range []string{"one", "two"} {
		c, err := dial(t.Context(), "tcp", named(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if said, err := bufio.NewReader(c).ReadString('\n'); said != name+"\n" || err != nil {
			t.Errorf("%q answers instead of %s: %v", said, name, err)
		}
		open = append(open, c)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if _, err := dial(t.Context(), "tcp", closed.Addr().String()); err == nil || !strings.Contains(err.Error(), closed.Addr().String()) {
		t.Errorf("where nobody listens: %v", err)
	}
	for _, wrong := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 2000)} {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, wrong)
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%.20q is answered with %d bytes", wrong, n)
		}
		_ = c.Close()
	}
	if n := p.Cut(time.Millisecond); n != 2 {
		t.Errorf("%d connections were cut", n)
	}
	for _, c := range open {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that was cut goes on")
		}
	}
}
