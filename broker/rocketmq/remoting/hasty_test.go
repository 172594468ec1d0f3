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
	if _, err := c.Ask(ctx, "server:1", Command{Code: 1}); err == nil {
		t.Error("it was answered after its time")
	}
	if _, err := c.Ask(t.Context(), "server:1", Command{Code: 2}); err != nil || dials.Load() != 1 {
		t.Errorf("the next request: %v, by connection %d", err, dials.Load())
	}
}
