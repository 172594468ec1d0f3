package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
)

// connectError says why there is no connection; no password is in it.
type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

// unreachable says in one sentence why there is no connection, and what mends it.
func unreachable(err error, rawURL string, at address) error {
	as := ""
	if at.sasl != nil {
		as = " as " + loginOf(rawURL)
	}
	why := func(cause, fix string) error {
		return &connectError{text: fmt.Sprintf("connect to Kafka at %s%s: %s; %s", strings.Join(at.hosts, ","), as, cause, fix), err: err}
	}
	var dns *net.DNSError
	var n net.Error
	var header tls.RecordHeaderError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return why("the user or the password is not right", "put the right ones into the URL, or give the user this password for this mechanism: kafka-configs.sh --alter --entity-type users")
	case isAny(err, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState):
		return why("the listener does not take this mechanism", "put another sasl=… into the URL (scram-sha-512, scram-sha-256, plain), or the port of a listener that does")
	case errors.As(err, &dns):
		return why("the name of the host can't be resolved", "put the right host into the URL")
	case errors.Is(err, syscall.ECONNREFUSED):
		return why("nothing listens there", "start the cluster, or put the right host and port into the URL")
	case errors.As(err, &header), strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		return why(oneSentence(err), "make the listener and the URL agree on TLS (tls, tls_ca, tls_name)")
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return why("the listener hangs up", hungUp(at))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		if at.tls != nil {
			return why("no answer in time", "the listener may not speak TLS, and the URL has tls=true; or look at the network, a firewall, or a server that was stopped")
		}
		return why("no answer in time", "look at the network, a firewall, or a server that was stopped")
	}
	return why(oneSentence(err), "is it a Kafka cluster?")
}

// hungUp says what makes a listener end a connection without a word.
func hungUp(at address) string {
	switch {
	case at.sasl != nil && at.tls != nil:
		return "the user or the password may be wrong, or the listener may want none, or no TLS"
	case at.sasl != nil:
		return "the user or the password may be wrong, or the listener may want TLS (tls=true), or no user"
	case at.tls != nil:
		return "it may not speak TLS, or ask for a user (user:password@)"
	}
	return "it may ask for TLS (tls=true) or for a user (user:password@), and the URL has none; or it is not Kafka"
}
