package kafka_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// produceKey is the number of the request that publishes.
const produceKey = 0

// lossyDial makes connections on which answers can be lost.
type lossyDial struct {
	losing atomic.Bool
	lost   atomic.Int64
	// gone is closed when an acknowledgement was swallowed.
	gone chan struct{}
	once sync.Once
}

func newLossyDial() *lossyDial { return &lossyDial{gone: make(chan struct{})} }

func (d *lossyDial) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, d: d, asked: map[int32]bool{}}, nil
}

// lose swallows the answer to the next request that publishes, and cuts its
// connection. It returns how many were lost.
func (d *lossyDial) lose() int {
	d.losing.Store(true)
	select {
	case <-d.gone:
	case <-time.After(10 * time.Second):
	}
	return int(d.lost.Load())
}

// lossyConn reads whole answers.
type lossyConn struct {
	net.Conn
	d *lossyDial

	mu      sync.Mutex
	asked   map[int32]bool // ids of requests that publish
	written []byte
	ready   []byte
}

// Write takes note of requests.
func (c *lossyConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.written = append(c.written, b...)
	for len(c.written) >= 4 {
		size := int(binary.BigEndian.Uint32(c.written))
		if len(c.written) < 4+size {
			break
		}
		if frame := c.written[4 : 4+size]; size >= 8 && binary.BigEndian.Uint16(frame) == produceKey {
			c.asked[int32(binary.BigEndian.Uint32(frame[4:]))] = true
		}
		c.written = c.written[4+size:]
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// Read returns answers, but for the one that gets lost.
func (c *lossyConn) Read(b []byte) (int, error) {
	if len(c.ready) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.Conn, frame); err != nil {
			return 0, err
		}
		c.mu.Lock()
		publishes := len(frame) >= 4 && c.asked[int32(binary.BigEndian.Uint32(frame))]
		c.mu.Unlock()
		if publishes && c.d.losing.CompareAndSwap(true, false) {
			c.d.lost.Add(1)
			c.d.once.Do(func() { close(c.d.gone) })
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		c.ready = append(head[:], frame...)
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}
