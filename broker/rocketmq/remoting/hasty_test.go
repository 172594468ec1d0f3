package remoting

import (
	"context"
	"encoding/json"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A frame that is cut off would end the connection, and all that others wait for.
func TestARequestWhoseTimeEndsWhileItIsWrittenIsWrittenWhole(t *testing.T) {
	var dials atomic.Int64
	late := make(chan struct{})
	c := New(Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		here, there := net.Pipe() // nothing is written before it is read
		go func() {
			<-late
			for {
				h, _, err := readFrame(there)
				if err != nil {
					return
				}
				text, _ := json.Marshal(header{Flag: flagAnswer, Opaque: h.Opaque})
				frame := append([]byte{0, 0, 0, byte(4 + len(text)), 0, 0, 0, byte(len(text))}, text...)
				if _, err := there.Write(frame); err != nil {
					return
				}
			}
		}()
		return here, nil
	}})
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	go func() {
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond)
		close(late)
	}()
	_, _ = c.Ask(ctx, "server:1", Command{Code: 1}) // answered just in time, or not
	if _, err := c.Ask(t.Context(), "server:1", Command{Code: 2}); err != nil || dials.Load() != 1 {
		t.Errorf("the next request: %v, by connection %d", err, dials.Load())
	}
}

// A connection that a firewall has forgotten ends for neither side.
func TestAConnectionByWhichNothingComesAnyMoreIsMadeAnew(t *testing.T) {
	var dials atomic.Int64
	read := make(chan struct{}, 100)
	c := New(Config{Timeout: 200 * time.Millisecond, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		lost := dials.Add(1) == 1
		go func() {
			for {
				h, _, err := readFrame(there)
				if err != nil {
					return
				}
				if lost {
					read <- struct{}{}
					continue
				}
				text, _ := json.Marshal(header{Flag: flagAnswer, Opaque: h.Opaque})
				frame := append([]byte{0, 0, 0, byte(4 + len(text)), 0, 0, 0, byte(len(text))}, text...)
				if _, err := there.Write(frame); err != nil {
					return
				}
			}
		}()
		return here, nil
	}})
	t.Cleanup(c.Close)
	waiting := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		_, err := c.Ask(ctx, "server:1", Command{Code: 1})
		waiting <- err
	}()
	<-read
	for {
		if _, err := c.Ask(t.Context(), "server:1", Command{Code: 2}); err == nil {
			break
		}
	}
	if err := <-waiting; err == nil || dials.Load() < 2 {
		t.Errorf("what waited for the first: %v, after %d connections", err, dials.Load())
	}
}
