package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// address is what a URL says.
type address struct {
	servers []string
	login   []nats.Option
	// monitors are where servers tell more than clients are told.
	monitors []string
	// replicas of a topic that is made; 0 leaves it to the number of servers.
	replicas int
}

// urlOptions are what may stand behind the ? of a URL.
var urlOptions = []string{"tls", "tls_ca", "tls_name", "creds", "nkey", "replicas", "monitor"}

// IsURL tells a URL of NATS by its beginning: several hosts are no URL to other
// readers.
func IsURL(rawURL string) bool { return strings.HasPrefix(rawURL, "nats://") }

// CheckURL reports what is wrong with a URL, without showing any of it that may
// be secret. It reads no file and does no I/O.
func CheckURL(rawURL string) error {
	_, _, err := splitURL(rawURL)
	return err
}

// parseURL reads nats://[TOKEN@|user:password@]host:port[,host:port…][?options].
// Options are
//
//	tls=true          encrypt, and check the certificate against the system's authorities
//	tls_ca=/path      or against the authorities in this file
//	tls_name=host     the name that the certificate must be for; the host's by default
//	creds=/path       a file of credentials (JWT and seed) in place of a user
//	nkey=/path        a file that holds the seed of an nkey in place of a user
//	replicas=N        copies of a topic that is made: 1, 3 or 5; by default 3 in a cluster, else 1
//	monitor=http://host:port   the monitoring address of a server, for settle doctor; may stand once for each server
func parseURL(rawURL string) (address, error) {
	a, options, err := splitURL(rawURL)
	if err != nil {
		return a, err
	}
	if path := options.Get("creds"); path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return a, fmt.Errorf("read creds: %w", err)
		}
		a.login = append(a.login, nats.UserCredentials(path))
	}
	if path := options.Get("nkey"); path != "" {
		seed, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return a, fmt.Errorf("read nkey: %w", err)
		}
		a.login = append(a.login, seed)
	}
	if options.Get("tls") != "true" {
		return a, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: options.Get("tls_name")}
	if file := options.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return a, fmt.Errorf("read tls_ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return a, fmt.Errorf("read tls_ca: %s holds no certificate in PEM form", file)
		}
	}
	a.login = append(a.login, nats.Secure(c))
	return a, nil
}

func splitURL(rawURL string) (a address, options url.Values, err error) {
	rest, ok := strings.CutPrefix(rawURL, "nats://")
	if !ok {
		return a, nil, errors.New("a URL of NATS begins with nats://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if path != "" {
		return a, nil, errors.New("there is a path behind the hosts; topics are not part of the URL")
	}
	user := ""
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, hosts = hosts[:at], hosts[at+1:]
	}
	for _, h := range strings.Split(hosts, ",") {
		if host, port, err := net.SplitHostPort(h); err != nil || host == "" || !isNumber(port) {
			return a, nil, fmt.Errorf("%q is not host:port", h)
		}
		a.servers = append(a.servers, "nats://"+h)
	}
	if options, err = url.ParseQuery(query); err != nil {
		return a, nil, errors.New("what stands behind ? can't be read")
	}
	if err := checkOptions(options, user != ""); err != nil {
		return a, nil, err
	}
	if options.Has("replicas") {
		a.replicas, _ = strconv.Atoi(options.Get("replicas"))
	}
	a.monitors = options["monitor"]
	return a, options, a.logIn(user)
}

func isNumber(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

func checkOptions(options url.Values, user bool) error {
	for name, values := range options {
		switch {
		case !slices.Contains(urlOptions, name):
			return fmt.Errorf("there is no option %q; there are %s", name, strings.Join(urlOptions, ", "))
		case len(values) > 1 && name != "monitor":
			return fmt.Errorf("the option %q is there twice", name)
		}
	}
	ways := 0
	for _, is := range []bool{user, options.Has("creds"), options.Has("nkey")} {
		if is {
			ways++
		}
	}
	secure := options.Get("tls")
	switch {
	case ways > 1:
		return errors.New("a token or user, creds and nkey are three ways to log in, and more than one is there")
	case options.Has("tls") && secure != "true" && secure != "false":
		return errors.New("tls is true or false")
	case secure != "true" && (options.Has("tls_ca") || options.Has("tls_name")):
		return errors.New("tls_ca and tls_name say how a certificate is checked, and tls=true is not there")
	case options.Has("replicas") && !slices.Contains([]string{"1", "3", "5"}, options.Get("replicas")):
		return errors.New("replicas is 1, 3 or 5")
	case slices.ContainsFunc(options["monitor"], isNoMonitor):
		return errors.New("monitor is http://host:port or https://host:port")
	}
	return nil
}

func isNoMonitor(at string) bool {
	u, err := url.Parse(at)
	return err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != ""
}

// logIn reads what stands before the hosts: a token, or a user and a password.
func (a *address) logIn(user string) error {
	if user == "" {
		return nil
	}
	rawName, rawPassword, both := strings.Cut(user, ":")
	name, err := url.PathUnescape(rawName)
	if err != nil {
		return errors.New("the token or user can't be read: % begins an escape, as %40 for @")
	}
	password, err := url.PathUnescape(rawPassword)
	if err != nil {
		return errors.New("the password can't be read: % begins an escape, as %40 for @")
	}
	if both {
		a.login = []nats.Option{nats.UserInfo(name, password)}
	} else {
		a.login = []nats.Option{nats.Token(name)}
	}
	return nil
}
