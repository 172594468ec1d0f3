package rabbitmq

import (
	"context"
	"net"
)

// OpenTapForTest makes a tap whose connections are made by dial.
func OpenTapForTest(url string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Tap, error) {
	t, err := OpenTap(url)
	if err == nil {
		t.b.cfg.Dial = dial
	}
	return t, err
}
