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

// proxied returns a proxy in front of a server that answers each line with
// "ack " and the line, and a channel of the lines the server got.
func proxied(t *testing.T, witness string) (*drill.Proxy, <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					got <- in.Text()
					if _, err := io.WriteString(c, "ack "+in.Text()+"\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	p, err := drill.OpenProxy(drill.ProxyConfig{Target: ln.Addr().String(), Witness: func() drill.Witness { return &drill.TextWitness{Text: witness} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = ln.Close()
	})
	return p, got
}

type line struct {
	*testing.T
	conn net.Conn
	in   *bufio.Reader
}

func through(t *testing.T, p *drill.Proxy) line {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return line{t, c, bufio.NewReader(c)}
}

func (l line) say(s string) {
	l.Helper()
	if _, err := io.WriteString(l.conn, s+"\n"); err != nil {
		l.Fatal(err)
	}
}

func (l line) hear() (string, error) {
	s, err := l.in.ReadString('\n')
	return strings.TrimSpace(s), err
}

func TestAProxyPassesBothWaysAndCountsBytes(t *testing.T) {
	p, _ := proxied(t, "")
	l := through(t, p)
	l.say("hello")
	if s, err := l.hear(); s != "ack hello" || err != nil {
		t.Fatalf("heard %q, %v", s, err)
	}
	if n := p.Passed(); n != int64(len("hello\nack hello\n")) {
		t.Errorf("counted %d bytes", n)
	}
}

func TestACutResetsAllConnectionsAndRefusesNewOnesForAWhile(t *testing.T) {
	p, _ := proxied(t, "")
	a, b := through(t, p), through(t, p)
	for _, l := range []line{a, b} {
		l.say("x")
		if _, err := l.hear(); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Cut(100 * time.Millisecond); n != 2 || p.Cuts() != 2 {
		t.Errorf("cut %d, counted %d; want 2", n, p.Cuts())
	}
	if s, err := a.hear(); err == nil {
		t.Errorf("heard %q after the cut", s)
	}
	served := func() bool {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "again\n"); err != nil {
			return false
		}
		s, _ := bufio.NewReader(c).ReadString('\n')
		return s == "ack again\n"
	}
	if served() {
		t.Error("a connection was served while refusing")
	}
	eventually(t, 5*time.Second, "served again", served)
}

func TestLostAnswersReachTheServerButNotTheClient(t *testing.T) {
	p, got := proxied(t, "ack second")
	l := through(t, p)
	l.say("first")
	if _, err := l.hear(); err != nil {
		t.Fatal(err)
	}
	<-got
	lost := make(chan int, 1)
	go func() { lost <- p.LoseAnswers(t.Context(), 10*time.Millisecond) }()
	heard := make(chan string, 1)
	go func() { // answers still pass until LoseAnswers has begun
		for {
			s, err := l.hear()
			if err != nil {
				heard <- s
				return
			}
		}
	}()
	for over := false; !over; {
		_, _ = io.WriteString(l.conn, "second\n") // fails once the connection is cut
		select {
		case s := <-got:
			if s != "second" {
				t.Fatalf("the server got %q", s)
			}
		case n := <-lost:
			if over = true; n == 0 {
				t.Fatal("no answer was lost")
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
	if s := <-heard; s != "" {
		t.Errorf("the client heard %q after the loss", s)
	}
	if p.Cuts() == 0 {
		t.Error("the connection survived")
	}
}

func TestALossWithoutAWitnessIsNotCounted(t *testing.T) {
	p, _ := proxied(t, "ack")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if n := p.LoseAnswers(ctx, time.Millisecond); n != 0 {
		t.Errorf("counted %d although nobody spoke", n)
	}
}
