package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// A client of a proxy that has no target names its own in words of HTTP.
const (
	connectEnd  = "\r\n\r\n"
	connected   = "HTTP/1.1 200 OK" + connectEnd
	connectTime = 10 * time.Second
)

// DialThrough returns a dialer that reaches every address through the proxy at
// addr, which has no target of its own.
func DialThrough(addr string) func(ctx context.Context, network, target string) (net.Conn, error) {
	return func(ctx context.Context, network, target string) (net.Conn, error) {
		c, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if err := nameTarget(ctx, c, target); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("reach %s through the drill's proxy: %w", target, err)
		}
		return c, nil
	}
}

// nameTarget names the target and waits until it is reached.
func nameTarget(ctx context.Context, c net.Conn, target string) error {
	until := time.Now().Add(connectTime)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	_ = c.SetDeadline(until)
	if _, err := io.WriteString(c, "CONNECT "+target+" HTTP/1.1"+connectEnd); err != nil {
		return err
	}
	answer, err := readHead(c)
	if err != nil {
		return err
	}
	if answer != connected {
		return fmt.Errorf("it answers %q", strings.TrimSpace(answer))
	}
	return c.SetDeadline(time.Time{})
}

// readHead reads up to the end of the head and not a byte further: what follows
// is not the proxy's.
func readHead(c net.Conn) (string, error) {
	var head []byte
	one := make([]byte, 1)
	for len(head) < 1024 {
		if _, err := io.ReadFull(c, one); err != nil {
			return "", err
		}
		head = append(head, one[0])
		if strings.HasSuffix(string(head), connectEnd) {
			return string(head), nil
		}
	}
	return "", errors.New("a head of more than 1,024 bytes")
}

// reach connects to where client wants to go.
func (p *Proxy) reach(client *net.TCPConn) (*net.TCPConn, error) {
	target := p.cfg.Target
	if target == "" {
		_ = client.SetDeadline(time.Now().Add(connectTime))
		head, err := readHead(client)
		if err != nil {
			return nil, err
		}
		words := strings.Fields(head)
		if len(words) < 2 || words[0] != "CONNECT" {
			return nil, errors.New("it names no target")
		}
		target = words[1]
	}
	s, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return nil, err
	}
	if p.cfg.Target == "" {
		if _, err = io.WriteString(client, connected); err == nil {
			err = client.SetDeadline(time.Time{})
		}
		if err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s.(*net.TCPConn), nil
}
