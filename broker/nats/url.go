package nats

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/brokerurl"
)

// address is what a URL says.
type address struct {
	servers []string
	login   []nats.Option
	// monitors are where servers tell more than clients are told.
	monitors []string
	// replicas of a topic that is made; 0 leaves it to the number of servers.
	replicas int
	// wire is what events are written as.
	wire cloudevents.Wire
}

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
// Options are those of TLS (see package brokerurl) and
//
//	creds=/path       a file of credentials (JWT and seed) in place of a user
//	nkey=/path        a file that holds the seed of an nkey in place of a user
//	replicas=N        copies of a topic that is made: 1, 3 or 5; by default 3 in a cluster, else 1
//	monitor=http://host:port   the monitoring address of a server, for settle doctor; may stand once for each server
//	wire=NAME         what events are written as: envelope, the default, cloudevents-binary or cloudevents-structured
func parseURL(rawURL string) (address, error) {
	a, found, err := splitURL(rawURL)
	if err != nil {
		return a, err
	}
	if path := found.Options.Get("creds"); path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return a, fmt.Errorf("read creds: %w", err)
		}
		a.login = append(a.login, nats.UserCredentials(path))
	}
	if path := found.Options.Get("nkey"); path != "" {
		seed, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return a, fmt.Errorf("read nkey: %w", err)
		}
		a.login = append(a.login, seed)
	}
	secure, err := found.TLS()
	if secure != nil {
		a.login = append(a.login, nats.Secure(secure))
	}
	return a, err
}

func splitURL(rawURL string) (a address, found brokerurl.URL, err error) {
	rest, ok := strings.CutPrefix(rawURL, "nats://")
	if !ok {
		return a, found, errors.New("a URL of NATS begins with nats://")
	}
	form := brokerurl.Form{Options: []string{"creds", "nkey", "replicas", "monitor", "wire"}, Many: []string{"monitor"}, Login: "token or user"}
	if found, err = form.Parse(rest); err != nil {
		return a, found, err
	}
	if a.wire, err = cloudevents.ParseWire(found.Options.Get("wire")); err != nil {
		return a, found, err
	}
	for _, h := range found.Hosts {
		a.servers = append(a.servers, "nats://"+h)
	}
	a.replicas, _ = strconv.Atoi(found.Options.Get("replicas"))
	a.monitors = found.Options["monitor"]
	switch {
	case found.HasPassword:
		a.login = []nats.Option{nats.UserInfo(found.User, found.Password)}
	case found.User != "":
		a.login = []nats.Option{nats.Token(found.User)}
	}
	return a, found, checkURL(found)
}

func checkURL(found brokerurl.URL) error {
	ways := 0
	for _, is := range []bool{found.User != "", found.Options.Has("creds"), found.Options.Has("nkey")} {
		if is {
			ways++
		}
	}
	switch {
	case found.Path != "":
		return errors.New("there is a path behind the hosts; topics are not part of the URL")
	case ways > 1:
		return errors.New("a token or user, creds and nkey are three ways to log in, and more than one is there")
	case found.Options.Has("replicas") && !slices.Contains([]string{"1", "3", "5"}, found.Options.Get("replicas")):
		return errors.New("replicas is 1, 3 or 5")
	case slices.ContainsFunc(found.Options["monitor"], isNoMonitor):
		return errors.New("monitor is http://host:port or https://host:port")
	}
	return nil
}

func isNoMonitor(at string) bool {
	u, err := url.Parse(at)
	return err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != ""
}
