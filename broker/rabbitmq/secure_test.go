package rabbitmq_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rabbitmq"
)

// authority is the file of the authority that the tests' server is certified
// by, where scripts/services has put it.
func authority(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("SETTLE_SERVICES_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("settle-services-%d", os.Getuid()))
	}
	file := filepath.Join(dir, "rabbitmq", "ca.pem")
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: the server of SETTLE_TEST_RABBITMQ is not one of scripts/services", err)
		}
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %v; `scripts/services up rabbitmq` makes it", err)
	}
	return file
}

func TestWhoIsNotLetInIsToldSoAtOnce(t *testing.T) {
	at := serverForTest(t)
	u := parse(t, at)
	secure := above(t, u, 2)
	change := func(by func(u *url.URL)) string {
		c := *u
		by(&c)
		return c.String()
	}
	for what, c := range map[string]struct{ at, want string }{
		"wrong password":       {change(func(u *url.URL) { u.User = url.UserPassword("settle", "canary") }), `refuses user "settle"`},
		"unknown user":         {change(func(u *url.URL) { u.User = url.UserPassword("nobody", "canary") }), `refuses user "nobody"`},
		"unknown virtual host": {change(func(u *url.URL) { u.Path = "/none" }), `may not use virtual host "none", or there is none`},
		"untrusted":            {change(func(u *url.URL) { u.Host, u.RawQuery = secure, "tls=true" }), "tls_ca names a file of authorities"},
		"another name":         {change(func(u *url.URL) { u.Host, u.RawQuery = secure, "tls=true&tls_name=else&tls_ca="+authority(t) }), "tls_name"},
		"TLS on a plain port":  {change(func(u *url.URL) { u.RawQuery = "tls=true" }), "does not speak TLS"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := rabbitmq.Open(t.Context(), c.at, rabbitmq.Config{ConnectTimeout: time.Hour, Timeout: time.Minute})
			switch {
			case err == nil:
				t.Fatal("Open lets it in")
			case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n"):
				t.Errorf("%q does not say %q in one sentence", err, c.want)
			case strings.Contains(err.Error(), "canary"):
				t.Errorf("%q shows the password", err)
			}
		})
	}
}

func TestABrokerThatIsNotThereIsTriedForAWhile(t *testing.T) {
	_, err := rabbitmq.Open(t.Context(), "rabbitmq://a:b@127.0.0.1:1/", rabbitmq.Config{ConnectTimeout: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "connect to RabbitMQ at 127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestEventsGoThroughTLSAndAroundAHostThatIsNotThere(t *testing.T) {
	r := newRig(t, serverForTest(t))
	u := parse(t, r.at)
	u.Host = "127.0.0.1:1," + above(t, u, 2)
	u.RawQuery = "tls=true&tls_ca=" + authority(t)
	r.introduce(t, "g")
	r.at = u.String()
	b := closing(t, r.open(t, r.config()))
	batch := events(r.topic, "k", 26)
	publishAll(t, b, batch)
	c := newCollector()
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "all events", func() bool { return c.has(batch) })
}
