package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
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
	where := strings.Join(at.hosts, ",")
	if at.sasl != nil {
		where += " as " + loginOf(rawURL)
	}
	var n net.Error
	why := ""
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nothing listens there; start the cluster, or put the right host and port into the URL"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		why = "no answer in time; look at the network, a firewall, or a server that was stopped"
		if at.tls != nil {
			why += "; or the listener does not speak TLS, and tls=true is there"
		}
	default:
		why = oneLine(explain(err))
	}
	return &connectError{text: "connect to Kafka at " + where + ": " + why, err: err}
}

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
