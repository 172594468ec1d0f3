// Package brokerurl reads the URLs of brokers: who logs in, several hosts, a path
// and options, of which those about TLS are the same for all. No error shows
// anything that may be secret.
package brokerurl

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
)

// Options of every broker's URL:
//
//	tls=true          encrypt, and check the certificate against the system's authorities
//	tls_ca=/path      or against the authorities in this file
//	tls_name=host     the name that the certificate must be for; the host's by default
const (
	optionTLS  = "tls"
	optionCA   = "tls_ca"
	optionName = "tls_name"
)

// Form is how the URLs of one kind of broker look. The zero value knows the
// options about TLS alone.
type Form struct {
	// Options are those that the broker has besides. Defaults to none.
	Options []string
	// Many are those of Options that may stand more than once. Defaults to none.
	Many []string
	// Login is what stands first before the hosts, for errors. Defaults to user.
	Login string
	// Secure says tls=true where the URL says nothing of it. Defaults to false.
	Secure bool
}

// URL is what one says.
type URL struct {
	// User and Password stand before the hosts, as they are meant: escapes are
	// gone. HasPassword tells an empty password from none.
	User, Password string
	HasPassword    bool
	// Hosts are host:port, at least one.
	Hosts []string
	// Path is what stands behind the hosts, without the first slash, as written.
	Path    string
	Options url.Values
}

// Parse reads what stands behind ://, which is
// [user[:password]@]host:port[,host:port…][/path][?options]. It does no I/O.
func (f Form) Parse(rest string) (u URL, err error) {
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	u.Path = path
	login := ""
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		login, hosts = hosts[:at], hosts[at+1:]
	}
	u.Hosts = strings.Split(hosts, ",")
	for _, h := range u.Hosts {
		if host, port, err := net.SplitHostPort(h); err != nil || host == "" || !isPort(port) {
			return u, fmt.Errorf("%q is not host:port", h)
		}
	}
	if err := u.logIn(login, f.Login); err != nil {
		return u, err
	}
	if u.Options, err = url.ParseQuery(query); err != nil {
		return u, errors.New("what stands behind ? can't be read")
	}
	if f.Secure && !u.Options.Has(optionTLS) {
		u.Options.Set(optionTLS, "true")
	}
	return u, f.check(u.Options)
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func (u *URL) logIn(login, what string) (err error) {
	if what == "" {
		what = "user"
	}
	user, password, has := strings.Cut(login, ":")
	if u.User, err = url.PathUnescape(user); err != nil {
		return fmt.Errorf("the %s can't be read: %% begins an escape, as %%40 for @", what)
	}
	if u.Password, err = url.PathUnescape(password); err != nil {
		return errors.New("the password can't be read: % begins an escape, as %40 for @")
	}
	u.HasPassword = has
	return nil
}

func (f Form) check(options url.Values) error {
	known := append([]string{optionTLS, optionCA, optionName}, f.Options...)
	for name, values := range options {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("there is no option %q; there are %s", name, strings.Join(known, ", "))
		case len(values) > 1 && !slices.Contains(f.Many, name):
			return fmt.Errorf("the option %q is there twice", name)
		}
	}
	switch secure := options.Get(optionTLS); {
	case options.Has(optionTLS) && secure != "true" && secure != "false":
		return errors.New("tls is true or false")
	case secure != "true" && (options.Has(optionCA) || options.Has(optionName)):
		return errors.New("tls_ca and tls_name say how a certificate is checked, and tls=true is not there")
	}
	return nil
}

// TLS returns how connections are encrypted, nil where they are not. It reads
// the file of authorities, where one is named.
func (u URL) TLS() (*tls.Config, error) {
	if u.Options.Get(optionTLS) != "true" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Options.Get(optionName)}
	file := u.Options.Get(optionCA)
	if file == "" {
		return c, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read tls_ca: %w", err)
	}
	if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read tls_ca: %s holds no certificate in PEM form", file)
	}
	return c, nil
}
