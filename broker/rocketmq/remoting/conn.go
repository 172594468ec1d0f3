package remoting

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// errIdle ends a connection before the server would end it.
var errIdle = errors.New("the connection was idle")

// writeAtLeast is what a write may take.
const writeAtLeast = time.Second

// conn is one connection. It fails all that waits for answers when it ends.
type conn struct {
	wire net.Conn
	// writing holds the one who writes.
	writing chan struct{}
	// used is when something was last sent, heard when something last came, in
	// nanoseconds.
	used, heard atomic.Int64
	// silence is how long nothing may come while an answer is waited for in vain.
	silence time.Duration
	gone    chan struct{}
	// requests gets what the server asks.
	requests func(Command)
	// reading ends with the connection.
	reading sync.WaitGroup

	mu      sync.Mutex
	why     error
	last    int32
	waiting map[int32]chan Answer
}

func newConn(wire net.Conn, silence time.Duration, requests func(Command)) *conn {
	c := &conn{wire: wire, silence: silence, requests: requests, writing: make(chan struct{}, 1), gone: make(chan struct{}), waiting: map[int32]chan Answer{}}
	c.use()
	c.reading.Go(c.read)
	return c
}

// end fails what waits. The first reason counts.
func (c *conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return
	}
	c.why = why
	_ = c.wire.Close()
	close(c.gone)
}

func (c *conn) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// use notes that it is in use now.
func (c *conn) use() { c.used.Store(time.Now().UnixNano()) }

// idle reports whether nothing was sent for a while and nothing is waited for.
func (c *conn) idle(since time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0 && time.Since(time.Unix(0, c.used.Load())) > since
}

func (c *conn) read() {
	from := bufio.NewReaderSize(c.wire, 64<<10)
	for {
		h, body, err := readFrame(from)
		if err != nil {
			c.end(err)
			return
		}
		c.heard.Store(time.Now().UnixNano())
		if h.Flag&flagAnswer == 0 {
			c.requests(Command{Code: h.Code, Fields: h.Fields, Body: body})
			continue
		}
		c.mu.Lock()
		to, is := c.waiting[h.Opaque]
		delete(c.waiting, h.Opaque)
		c.mu.Unlock()
		if is { // else its caller has given up
			to <- Answer{Code: h.Code, Remark: h.Remark, Fields: h.Fields, Body: body}
		}
	}
}

func readFrame(from io.Reader) (h header, body []byte, err error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return h, nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size < 4 || size > maxFrame {
		return h, nil, fmt.Errorf("%w: its length is %d", errFrame, size)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(from, frame); err != nil {
		return h, nil, err
	}
	return decode(frame)
}

// ask sends a request and waits for its answer, until ctx ends. sent is whether the
// server may have it.
func (c *conn) ask(ctx context.Context, cmd Command) (a Answer, sent bool, err error) {
	to := make(chan Answer, 1)
	c.mu.Lock()
	if c.why != nil {
		defer c.mu.Unlock()
		return a, false, c.why
	}
	c.last++
	opaque := c.last
	c.waiting[opaque] = to
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, opaque)
	}()
	began := time.Now()
	if sent, err := c.write(ctx, header{Code: cmd.Code, Fields: cmd.Fields, Opaque: opaque}, cmd.Body); err != nil {
		return a, sent, err
	}
	select {
	case a = <-to:
		return a, true, nil
	case <-ctx.Done():
		c.missed(began, ctx.Err())
		return a, true, ctx.Err()
	case <-c.gone:
	}
	select { // it may have come just before
	case a = <-to:
		return a, true, nil
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return a, true, fmt.Errorf("the connection has ended: %w", c.why)
	}
}

// errSilent ends a connection that may lead nowhere any more: what is sent by it is
// not answered, and its end may never be told.
var errSilent = errors.New("nothing has come by the connection for too long")

// missed ends the connection when an answer did not come in time, and nothing else
// came either.
func (c *conn) missed(began time.Time, why error) {
	if errors.Is(why, context.DeadlineExceeded) && time.Since(began) >= c.silence && c.heard.Load() < began.UnixNano() {
		c.end(errSilent)
	}
}

// write sends a frame whole, or ends the connection.
func (c *conn) write(ctx context.Context, h header, body []byte) (sent bool, err error) {
	frame, err := encode(h, body)
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return false, ctx.Err()
	case <-c.gone:
		return false, c.wasEnded()
	}
	// A frame that is begun is sent whole, however little time is left: the
	// connection would end with it, and all that others wait for.
	deadline := time.Now().Add(writeAtLeast)
	if at, is := ctx.Deadline(); is && at.After(deadline) {
		deadline = at
	}
	if err := c.wire.SetWriteDeadline(deadline); err != nil {
		c.end(err)
		return false, err
	}
	c.use()
	if _, err := c.wire.Write(frame); err != nil {
		c.end(err)
		return true, err
	}
	return true, nil
}

func (c *conn) wasEnded() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}
