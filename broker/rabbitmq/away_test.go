package rabbitmq_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// away is a dialer whose connections all end when it goes, and that makes none
// until it comes back.
type away struct {
	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func newAway() *away { return &away{} }

func (a *away) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil, errors.New("it is away")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		a.conns = append(a.conns, conn)
	}
	return conn, err
}

func (a *away) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}

func (a *away) come() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = false
}
