package rocketmq_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lossyDial makes connections on which answers can be lost that say where a message
// is stored.
type lossyDial struct {
	losing atomic.Bool
	lost   atomic.Int64
	// gone is closed when an answer was swallowed.
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

// lose swallows the next such answer, and cuts its connection. It returns how many
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

// Read returns frames, but for the answer that gets lost.
func (c *lossyConn) Read(b []byte) (int, error) {
	if len(c.ready) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		rest := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c.Conn, rest); err != nil {
			return 0, err
		}
		stored := bytes.Contains(rest, []byte(`"queueOffset"`)) && bytes.Contains(rest, []byte(`"code":0`))
		if stored && c.d.losing.CompareAndSwap(true, false) {
			c.d.lost.Add(1)
			c.d.once.Do(func() { close(c.d.gone) })
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		c.ready = append(head, rest...)
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}
