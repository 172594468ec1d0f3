package rabbitmq_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// An AMQP frame is a type, a channel, a size, as many bytes, and an end. That of
// a method begins with its class and its number.
const (
	frameHead   = 7
	frameMethod = 1
	classBasic  = 60
	methodAck   = 80
)

// lossyDial makes connections on which confirms can be lost.
type lossyDial struct {
	losing atomic.Bool
	lost   atomic.Int64
	// spared is how many confirms pass first.
	spared atomic.Int64
	// gone is closed when a confirm was swallowed.
	gone chan struct{}
	once sync.Once
}

func newLossyDial() *lossyDial { return &lossyDial{gone: make(chan struct{})} }

func (d *lossyDial) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, d: d}, nil
}

// lose swallows the next confirm, and cuts its connection. It returns how many
// were lost.
func (d *lossyDial) lose() int {
	d.losing.Store(true)
	select {
	case <-d.gone:
	case <-time.After(10 * time.Second):
	}
	return int(d.lost.Load())
}

// lossyConn reads whole frames.
type lossyConn struct {
	net.Conn
	d     *lossyDial
	ready []byte
}

// Read returns frames, but for the confirm that gets lost.
func (c *lossyConn) Read(b []byte) (int, error) {
	if len(c.ready) == 0 {
		var head [frameHead]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		rest := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(c.Conn, rest); err != nil {
			return 0, err
		}
		confirms := head[0] == frameMethod && binary.BigEndian.Uint16(rest) == classBasic && binary.BigEndian.Uint16(rest[2:]) == methodAck
		if confirms && c.d.losing.Load() && c.d.spared.Add(-1) < 0 && c.d.losing.CompareAndSwap(true, false) {
			c.d.lost.Add(1)
			c.d.once.Do(func() { close(c.d.gone) })
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		c.ready = append(head[:], rest...)
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}
