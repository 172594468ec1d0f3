// Package nats publishes to and reads from NATS JetStream. A topic is one
// stream, split into partitions by subject; positions are stream sequences.
// Publishing goes in atomic batches, one in flight per stream; reading goes
// through a consumer of its own per partition and owner, which acknowledges
// nothing: the position is the group's floor in its own database.
package nats

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

// reconnectWait is short because every try is one dial of one server, and a
// restarted server is ready within a fraction of a second.
const reconnectWait = 50 * time.Millisecond

// dialTimeout bounds the making of a connection to one server.
const dialTimeout = 2 * time.Second

// Broker is one connection. Its methods may be called from several goroutines.
type Broker struct {
	cfg  Config
	nc   *nats.Conn
	js   jetstream.JetStream
	link *link
	// denied holds the newest permission error per subject.
	denied sync.Map
	calls  sync.WaitGroup
	// life ends with ErrClosed.
	life  context.Context
	close context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	topics map[string]*topic
}

var _ settle.Broker = (*Broker)(nil)

// Open connects to the server, or any one of a cluster, at a URL (see CheckURL
// and docs/brokers/nats.md) and declares cfg.Topics. It blocks until that is done,
// for at most cfg.ConnectTimeout. From then on a lost connection is restored for
// ever, at whichever server of the cluster answers.
func Open(ctx context.Context, url string, cfg Config) (*Broker, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	cfg = cfg.withDefaults()
	if cfg.Replicas == 0 {
		cfg.Replicas = at.replicas
	}
	if cfg.Wire == cloudevents.Envelope {
		cfg.Wire = at.wire
	}
	b := &Broker{cfg: cfg, link: newLink(), topics: map[string]*topic{}}
	b.life, b.close = context.WithCancelCause(context.Background())
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	if err := b.connect(ctx, at); err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	for _, name := range cfg.Topics {
		if _, err := b.topic(ctx, name); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	return b, nil
}

func (b *Broker) connect(ctx context.Context, at address) error {
	for {
		err := b.connectOnce(at)
		if err == nil || hopeless(err) != "" || !pause(ctx, reconnectWait) {
			return err
		}
	}
}

// connectOnce asks each of the servers that the URL names once.
func (b *Broker) connectOnce(at address) error {
	nc, err := nats.Connect(strings.Join(at.servers, ","), append(b.options(), at.login...)...)
	if why := hopeless(err); why != "" {
		return fmt.Errorf("%s: %w", why, err)
	}
	if err != nil {
		return err
	}
	b.nc = nc
	b.link.rise()
	if b.cfg.Replicas == 0 {
		b.cfg.Replicas = copiesIn(nc.ConnectedClusterName())
	}
	b.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(b.cfg.Timeout))
	return err
}

// hopeless says what is to be mended where waiting does not help.
func hopeless(err error) string {
	var unknown x509.UnknownAuthorityError
	var another x509.HostnameError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "the server refuses the token, user or key"
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return "the server knows no nkeys"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server does not speak TLS, and tls=true is there"
	case errors.As(err, &unknown):
		return "its certificate is signed by an authority that is not trusted here; tls_ca names a file of authorities"
	case errors.As(err, &another):
		return "its certificate is another host's; tls_name says which name it must be for"
	}
	return ""
}

// copiesIn is how many copies of a topic survive the loss of one server, where
// there is more than one.
func copiesIn(cluster string) int {
	if cluster == "" {
		return 1
	}
	return 3
}

func (b *Broker) options() []nats.Option {
	o := []nats.Option{
		nats.Name(b.cfg.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait/2, reconnectWait/2),
		// What is published while disconnected fails at once; a buffer would go
		// out after its caller gave up.
		nats.ReconnectBufSize(-1),
		nats.Timeout(dialTimeout),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(b.cfg.Timeout),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { b.link.fall() }),
		nats.ReconnectHandler(func(*nats.Conn) { b.link.rise() }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { b.noticed(s, err) }),
	}
	if b.cfg.Dial != nil {
		o = append(o, nats.SetCustomDialer(dialer(b.cfg.Dial)))
	}
	if b.cfg.InProcess != nil {
		o = append(o, nats.InProcessServer(b.cfg.InProcess))
	}
	return o
}

// dialer makes connections as Config.Dial does.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return d(ctx, network, addr)
}

// noticed takes errors that no call returns. The server answers a publish
// without permission only this way.
func (b *Broker) noticed(s *nats.Subscription, err error) {
	if subject, ok := deniedSubject(err); ok {
		b.denied.Store(subject, err)
	}
	subject := ""
	if s != nil {
		subject = s.Subject
	}
	b.cfg.Log.Warn("broker connection", "subject", subject, "error", err)
}

// Close implements settle.Broker. Subscriptions end with ErrClosed after the
// deliveries in flight; publishes in flight are waited for, at most until
// their time-out.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.close(settle.ErrClosed)
	b.calls.Wait()
	b.nc.Close()
	b.link.fall()
	return nil
}

// begin counts a call that Close has to wait for.
func (b *Broker) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return settle.ErrClosed
	}
	b.calls.Add(1)
	return nil
}

// pause waits for d and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
