package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// link tells once when a node of the cluster can't be reached any more, and
// once when it can again.
type link struct {
	log *slog.Logger

	mu      sync.Mutex
	telling bool
	// away holds the nodes that can't be reached.
	away map[string]bool
}

func newLink(log *slog.Logger) *link { return &link{log: log, away: map[string]bool{}} }

// tell begins: until then Open's result says it all.
func (l *link) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.telling = true
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (l *link) OnBrokerConnect(node kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	at := net.JoinHostPort(node.Host, fmt.Sprint(node.Port))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.telling || errors.Is(err, context.Canceled):
	case err != nil && !l.away[at]:
		l.away[at] = true
		l.log.Warn("a node of Kafka can't be reached and is tried again for ever", "node", at, "error", explain(err))
	case err == nil && l.away[at]:
		delete(l.away, at)
		l.log.Info("a node of Kafka is reached again", "node", at)
	}
}

// hopeless reports that a connection will be refused again.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return isAny(err, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState) || errors.As(err, &certificate) || errors.As(err, &plain)
}

// explain puts what is wrong with a connection in a sentence that says what to
// look at.
func explain(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var plain tls.RecordHeaderError
	var dns *net.DNSError
	var eof *kgo.ErrFirstReadEOF
	why := ""
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		why = "the cluster refuses the user or the password"
	case isAny(err, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState):
		why = "the listener does not take this sasl=; look at its sasl.enabled.mechanisms"
	case errors.As(err, &authority):
		why = "the certificate is of an authority that is not trusted here; tls_ca=/path names the one to trust"
	case errors.As(err, &name):
		why = "the certificate is another host's; tls_name=HOST names the one it is for"
	case errors.As(err, &plain):
		why = "the listener does not speak TLS; leave tls=true out, or use the port that does"
	// The client's own error has no name.
	case strings.Contains(err.Error(), "speaking to a tls endpoint"):
		why = "the listener speaks TLS, and tls=true is not there"
	case errors.As(err, &dns):
		why = "the host is not known"
	case errors.As(err, &eof), errors.Is(err, io.EOF):
		why = "the listener ends the connection at once, as it does when one side speaks TLS and the other does not, or when it wants a user and there is none"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", why, err)
}
