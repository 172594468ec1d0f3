package rabbitmq

import (
	"crypto/tls"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/brokerurl"
)

// address is what a URL says.
type address struct {
	hosts                 []string
	user, password, vhost string
	tls                   *tls.Config
	// management is where the HTTP API is, or empty.
	management string
	// wire is what events are written as.
	wire cloudevents.Wire
}

// IsURL reports whether a URL begins as one of RabbitMQ's does.
func IsURL(rawURL string) bool {
	scheme, _, found := strings.Cut(rawURL, "://")
	return found && slices.Contains([]string{"rabbitmq", "amqp", "amqps"}, scheme)
}

// CheckURL reports what is wrong with a URL, without showing any of it that
// may be secret. It reads no file and does no I/O.
func CheckURL(rawURL string) error {
	_, _, err := splitURL(rawURL)
	return err
}

// parseURL reads rabbitmq://user:password@host:port[,host:port…][/vhost][?options].
// amqp:// is the same, amqps:// says tls=true. Options are those of TLS (see
// package brokerurl) and
//
//	management=URL    the management API, http(s)://host:port, which settle doctor asks as the same user
//	wire=NAME         what events are written as: envelope, the default, cloudevents-binary or cloudevents-structured
func parseURL(rawURL string) (address, error) {
	a, found, err := splitURL(rawURL)
	if err == nil {
		a.tls, err = found.TLS()
	}
	return a, err
}

func splitURL(rawURL string) (a address, found brokerurl.URL, err error) {
	if !IsURL(rawURL) {
		return a, found, errors.New("a URL of RabbitMQ begins with rabbitmq://, amqp:// or amqps://")
	}
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if found, err = (brokerurl.Form{Options: []string{"management", "wire"}, Secure: scheme == "amqps"}).Parse(rest); err != nil {
		return a, found, err
	}
	if a.wire, err = cloudevents.ParseWire(found.Options.Get("wire")); err != nil {
		return a, found, err
	}
	a.hosts, a.user, a.password = found.Hosts, found.User, found.Password
	if a.user == "" || !found.HasPassword {
		return a, found, errors.New("there is no user:password before the hosts")
	}
	if strings.Contains(found.Path, "/") {
		return a, found, errors.New("there is more than a virtual host behind the hosts; / in its name is written %2F")
	}
	if a.vhost, err = url.PathUnescape(found.Path); err != nil {
		return a, found, errors.New("the virtual host can't be read: % begins an escape, as %2F for /")
	}
	if a.vhost == "" {
		a.vhost = "/"
	}
	a.management = strings.TrimSuffix(found.Options.Get("management"), "/")
	return a, found, checkManagement(found.Options.Get("management"))
}

func checkManagement(at string) error {
	if at == "" {
		return nil
	}
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("management is http://host:port or https://host:port")
	case u.User != nil:
		return errors.New("management names no user: it is asked as the one before the hosts")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("management ends with its host, or a path")
	}
	return nil
}
