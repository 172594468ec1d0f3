package kafka

import (
	"context"
	"crypto/tls"
	"net"
)

// dialOwn makes a connection by the config's dialer, with TLS over it where the
// URL says so.
func (b *Broker) dialOwn(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := b.cfg.Dial(ctx, network, addr)
	if err != nil || b.at.tls == nil {
		return c, err
	}
	cfg := b.at.tls.Clone()
	if cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	over := tls.Client(c, cfg)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return over, nil
}
