package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/brokerurl"
)

// address is what a URL says.
type address struct {
	hosts []string
	sasl  sasl.Mechanism
	tls   *tls.Config
	fence bool
	// wire is what events are written as.
	wire cloudevents.Wire
}

// CheckURL reports what is wrong with a URL, without showing any of it that
// may be secret. It reads no file and does no I/O.
func CheckURL(rawURL string) error {
	_, _, err := splitURL(rawURL)
	return err
}

// parseURL reads kafka://[user:password@]host:port[,host:port…][?options].
// Options are those of TLS (see package brokerurl) and
//
//	sasl=MECHANISM    scram-sha-512, the default with a user, scram-sha-256 or plain
//	fence=true        publish in transactions that keep a replaced relay out; see Config.Fence
//	wire=NAME         what events are written as: envelope, the default, cloudevents-binary or cloudevents-structured
func parseURL(rawURL string) (address, error) {
	a, found, err := splitURL(rawURL)
	if err == nil {
		a.tls, err = found.TLS()
	}
	return a, err
}

func splitURL(rawURL string) (a address, found brokerurl.URL, err error) {
	rest, ok := strings.CutPrefix(rawURL, "kafka://")
	if !ok {
		return a, found, errors.New("a URL of Kafka begins with kafka://")
	}
	if found, err = (brokerurl.Form{Options: []string{"sasl", "fence", "wire"}}).Parse(rest); err != nil {
		return a, found, err
	}
	if a.wire, err = cloudevents.ParseWire(found.Options.Get("wire")); err != nil {
		return a, found, err
	}
	fence := found.Options.Get("fence")
	switch {
	case found.Path != "":
		return a, found, errors.New("there is a path behind the hosts; topics are not part of the URL")
	case found.Options.Has("fence") && fence != "true" && fence != "false":
		return a, found, errors.New("fence is true or false")
	}
	a.hosts, a.fence = found.Hosts, fence == "true"
	a.sasl, err = mechanism(found)
	return a, found, err
}

func mechanism(found brokerurl.URL) (sasl.Mechanism, error) {
	login, password, name := found.User, found.Password, found.Options.Get("sasl")
	if login == "" {
		if name != "" {
			return nil, errors.New("sasl is named and there is no user:password before the hosts")
		}
		return nil, nil
	}
	switch name {
	case "", "scram-sha-512":
		return scram.Auth{User: login, Pass: password}.AsSha512Mechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: login, Pass: password}.AsSha256Mechanism(), nil
	case "plain":
		return plain.Auth{User: login, Pass: password}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("there is no sasl %q; there are scram-sha-512, scram-sha-256 and plain", name)
}
