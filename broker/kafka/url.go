package kafka

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

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// address is what a URL says.
type address struct {
	hosts []string
	sasl  sasl.Mechanism
	tls   *tls.Config
	fence bool
}

// CheckURL reports what is wrong with a URL, without showing any of it that
// may be secret. It reads no file and does no I/O.
func CheckURL(rawURL string) error {
	_, _, err := splitURL(rawURL)
	return err
}

// parseURL reads kafka://[user:password@]host:port[,host:port…][?options].
// Options are
//
//	tls=true          encrypt, and check the certificate against the system's authorities
//	tls_ca=/path      or against the authorities in this file
//	tls_name=host     the name that the certificate must be for; the host's by default
//	sasl=MECHANISM    scram-sha-512, the default with a user, scram-sha-256 or plain
//	fence=true        publish in transactions that keep a replaced relay out; see Config.Fence
func parseURL(rawURL string) (address, error) {
	a, options, err := splitURL(rawURL)
	if err != nil || options.Get("tls") != "true" {
		return a, err
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
	rest, ok := strings.CutPrefix(rawURL, "kafka://")
	if !ok {
		return a, nil, errors.New("a URL of Kafka begins with kafka://")
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
	a.hosts = strings.Split(hosts, ",")
	for _, h := range a.hosts {
		if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
			return a, nil, fmt.Errorf("%q is not host:port", h)
		}
	}
	if options, err = url.ParseQuery(query); err != nil {
		return a, nil, errors.New("what stands behind ? can't be read")
	}
	if err := checkOptions(options); err != nil {
		return a, nil, err
	}
	a.fence = options.Get("fence") == "true"
	a.sasl, err = mechanism(user, options.Get("sasl"))
	return a, options, err
}

func checkOptions(options url.Values) error {
	known := []string{"tls", "tls_ca", "tls_name", "sasl", "fence"}
	for name, values := range options {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no option %q; there are %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			return fmt.Errorf("the option %q is there twice", name)
		}
	}
	if fence := options.Get("fence"); options.Has("fence") && fence != "true" && fence != "false" {
		return errors.New("fence is true or false")
	}
	switch tls := options.Get("tls"); {
	case options.Has("tls") && tls != "true" && tls != "false":
		return errors.New("tls is true or false")
	case tls != "true" && (options.Has("tls_ca") || options.Has("tls_name")):
		return errors.New("tls_ca and tls_name say how a certificate is checked, and tls=true is not there")
	}
	return nil
}

func mechanism(user, name string) (sasl.Mechanism, error) {
	if user == "" {
		if name != "" {
			return nil, errors.New("sasl is named and there is no user:password before the hosts")
		}
		return nil, nil
	}
	rawName, rawPassword, _ := strings.Cut(user, ":")
	login, err := url.PathUnescape(rawName)
	if err != nil {
		return nil, errors.New("the user can't be read: % begins an escape, as %40 for @")
	}
	password, err := url.PathUnescape(rawPassword)
	if err != nil {
		return nil, errors.New("the password can't be read: % begins an escape, as %40 for @")
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
