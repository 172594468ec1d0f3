package kafka_test

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/settlemq/settle/broker/kafka"
)

func TestTLSIsSpokenOverConnectionsThatOthersMake(t *testing.T) {
	s := securedForTest(t)
	r := newRig(t, "kafka://"+s.plain)
	var made, plain atomic.Int64
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		made.Add(1)
		return firstByte{c, &plain}, err
	}
	at := s.url("settle", s.password, s.at, "tls=true", "tls_ca="+url.QueryEscape(s.ca))
	b := openForTest(t, at, kafka.Config{Declare: true, Partitions: 1, Dial: dial})
	defer b.Close()
	if receipt := publishOne(t, b, r.messageOf("k", 1, 0)); receipt.Err != nil {
		t.Fatal(receipt.Err)
	}
	if made.Load() == 0 || plain.Load() != 0 {
		t.Errorf("of %d connections %d messages went as they were", made.Load(), plain.Load())
	}
}

// firstByte counts what is written and is no record of TLS.
type firstByte struct {
	net.Conn
	plain *atomic.Int64
}

func (c firstByte) Write(b []byte) (int, error) {
	if b[0] < 20 || b[0] > 23 {
		c.plain.Add(1)
	}
	return c.Conn.Write(b)
}
