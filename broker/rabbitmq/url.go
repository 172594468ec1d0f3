package rabbitmq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
)

// address is what a URL says.
type address struct {
	hosts                 []string
	user, password, vhost string
	tls                   *tls.Config
	// management is where the HTTP API is, or empty.
	management string
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
// amqp:// is the same, amqps:// says tls=true. Options are
//
//	tls=true          encrypt, and check the certificate against the system's authorities
//	tls_ca=/path      or against the authorities in this file
//	tls_name=host     the name that the certificate must be for; the host's by default
//	management=URL    the management API, http(s)://host:port, which settle doctor asks as the same user
func parseURL(rawURL string) (address, error) {
	a, options, err := splitURL(rawURL)
	if err != nil {
		return a, err
	}
	a.management = strings.TrimSuffix(options.Get("management"), "/")
	if options.Get("tls") != "true" {
		return a, nil
	}
	a.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: options.Get("tls_name")}
	file := options.Get("tls_ca")
	if file == "" {
		return a, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return a, fmt.Errorf("read tls_ca: %w", err)
	}
	if a.tls.RootCAs = x509.NewCertPool(); !a.tls.RootCAs.AppendCertsFromPEM(pem) {
		return a, fmt.Errorf("read tls_ca: %s holds no certificate in PEM form", file)
	}
	return a, nil
}

func splitURL(rawURL string) (a address, options url.Values, err error) {
	if !IsURL(rawURL) {
		return a, nil, errors.New("a URL of RabbitMQ begins with rabbitmq://, amqp:// or amqps://")
	}
	scheme, rest, _ := strings.Cut(rawURL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	login := ""
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		login, hosts = hosts[:at], hosts[at+1:]
	}
	a.hosts = strings.Split(hosts, ",")
	for _, h := range a.hosts {
		if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
			return a, nil, fmt.Errorf("%q is not host:port", h)
		}
	}
	if err := a.setLogin(login); err != nil {
		return a, nil, err
	}
	if strings.Contains(path, "/") {
		return a, nil, errors.New("there is more than a virtual host behind the hosts; / in its name is written %2F")
	}
	if a.vhost, err = url.PathUnescape(path); err != nil {
		return a, nil, errors.New("the virtual host can't be read: % begins an escape, as %2F for /")
	}
	if a.vhost == "" {
		a.vhost = "/"
	}
	if options, err = url.ParseQuery(query); err != nil {
		return a, nil, errors.New("what stands behind ? can't be read")
	}
	if scheme == "amqps" && !options.Has("tls") {
		options.Set("tls", "true")
	}
	return a, options, checkOptions(options)
}

func (a *address) setLogin(login string) error {
	user, password, found := strings.Cut(login, ":")
	if !found || user == "" {
		return errors.New("there is no user:password before the hosts")
	}
	var err error
	if a.user, err = url.PathUnescape(user); err != nil {
		return errors.New("the user can't be read: % begins an escape, as %40 for @")
	}
	if a.password, err = url.PathUnescape(password); err != nil {
		return errors.New("the password can't be read: % begins an escape, as %40 for @")
	}
	return nil
}

func checkOptions(options url.Values) error {
	known := []string{"tls", "tls_ca", "tls_name", "management"}
	for name, values := range options {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no option %q; there are %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			return fmt.Errorf("the option %q is there twice", name)
		}
	}
	if err := checkManagement(options.Get("management")); err != nil {
		return err
	}
	switch tls := options.Get("tls"); {
	case options.Has("tls") && tls != "true" && tls != "false":
		return errors.New("tls is true or false")
	case tls != "true" && (options.Has("tls_ca") || options.Has("tls_name")):
		return errors.New("tls_ca and tls_name say how a certificate is checked, and tls=true is not there")
	}
	return nil
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
