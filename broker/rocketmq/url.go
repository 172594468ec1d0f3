package rocketmq

import (
	"crypto/tls"
	"errors"
	"strings"

	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/brokerurl"
)

// address is what a URL says.
type address struct {
	servers           []string // name servers
	accessKey, secret string
	tls               *tls.Config
	// any is whether keys of a node that is down move to others.
	any bool
	// wire is what events are written as.
	wire cloudevents.Wire
}

const scheme = "rocketmq://"

// IsURL tells a URL of RocketMQ by its beginning: several hosts are no URL to
// other readers.
func IsURL(rawURL string) bool { return strings.HasPrefix(rawURL, scheme) }

// CheckURL reports what is wrong with a URL, without showing any of it that may
// be secret. It reads no file and does no I/O.
func CheckURL(rawURL string) error {
	_, _, err := splitURL(rawURL)
	return err
}

// parseURL reads rocketmq://[accesskey:secretkey@]host:port[,host:port…][?options],
// whose hosts are name servers. Options are those of TLS (see package brokerurl)
// and
//
//	any=true          the keys of a node that is down go to others, which breaks their order; false by default
//	wire=NAME         what events are written as: envelope, the default, cloudevents-binary or cloudevents-structured
func parseURL(rawURL string) (address, error) {
	a, found, err := splitURL(rawURL)
	if err == nil {
		a.tls, err = found.TLS()
	}
	return a, err
}

func splitURL(rawURL string) (a address, found brokerurl.URL, err error) {
	rest, ok := strings.CutPrefix(rawURL, scheme)
	if !ok {
		return a, found, errors.New("a URL of RocketMQ begins with " + scheme)
	}
	if found, err = (brokerurl.Form{Options: []string{"any", "wire"}, Login: "access key"}).Parse(rest); err != nil {
		return a, found, err
	}
	if a.wire, err = cloudevents.ParseWire(found.Options.Get("wire")); err != nil {
		return a, found, err
	}
	a.servers, a.accessKey, a.secret = found.Hosts, found.User, found.Password
	a.any = found.Options.Get("any") == "true"
	switch {
	case found.Path != "":
		return a, found, errors.New("there is a path behind the hosts; topics are not part of the URL")
	case (a.accessKey == "") != (a.secret == ""):
		return a, found, errors.New("before the hosts stands accesskey:secretkey, or nothing")
	case found.Options.Has("any") && found.Options.Get("any") != "true" && found.Options.Get("any") != "false":
		return a, found, errors.New("any is true or false")
	}
	return a, found, nil
}
