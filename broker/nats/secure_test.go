package nats_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// file holds the certificate in PEM form.
	file string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{
		cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)},
		file: filepath.Join(t.TempDir(), "ca.pem"),
	}
	der := a.sign(t, a.cert, nil)
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign signs c for a key; its own where there is none.
func (a *authority) sign(t testing.TB, c *x509.Certificate, public *ecdsa.PublicKey) []byte {
	t.Helper()
	if public == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		a.key, public = key, &key.PublicKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// server is a configuration of TLS with a certificate for 127.0.0.1.
func (a *authority) server(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{a.sign(t, c, &key.PublicKey)}, PrivateKey: key}}}
}

// serveWith runs a server with more options than the embedded one has, and
// returns its host:port.
func serveWith(t testing.TB, o server.Options) string {
	t.Helper()
	o.SyncAlways = true
	host, _ := serveAll(t, o)
	return host
}

// serveAll returns the monitor's, too, where the options ask for one.
func serveAll(t testing.TB, o server.Options) (host, monitor string) {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, t.TempDir(), 1<<40
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	if o.HTTPPort != 0 {
		monitor = s.MonitorAddr().String()
	}
	return s.Addr().String(), monitor
}

// newKey makes an nkey, and a file with its seed.
func newKey(t testing.TB) (public, seedFile string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ = key.PublicKey()
	seed, _ := key.Seed()
	seedFile = filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seedFile, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return public, seedFile
}

func TestEventsTravelEncryptedForUsersOfEachKind(t *testing.T) {
	ca := newAuthority(t)
	public, seed := newKey(t)
	secure := "tls=true&tls_ca=" + url.QueryEscape(ca.file)
	for name, c := range map[string]struct {
		server server.Options
		user   string
		option string
	}{
		"token":             {server.Options{Authorization: "s/e@c"}, "s%2Fe%40c@", ""},
		"user and password": {server.Options{Username: "ann", Password: "p@ss"}, "ann:p%40ss@", ""},
		"nkey":              {server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}, "", "&nkey=" + url.QueryEscape(seed)},
		"nobody":            {server.Options{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.TLSConfig, c.server.TLSTimeout = ca.server(t), 30
			host := serveWith(t, c.server)
			b := open(t, "nats://"+c.user+host+"?"+secure+c.option)
			defer b.Close()
			if got := b.Publish(t.Context(), []settle.Message{message("e", "k")})[0]; got.Err != nil {
				t.Error(got.Err)
			}
			tap, err := nats.OpenTap("nats://" + c.user + host + "?" + secure + c.option)
			if err != nil {
				t.Fatal(err)
			}
			defer tap.Close()
			read := 0
			if err := tap.ReadAll(t.Context(), topicName, func(settle.Record) error { read++; return nil }); err != nil || read != 1 {
				t.Errorf("the tap reads %d events, %v", read, err)
			}
		})
	}
}

func TestOpenSaysWhatIsWrongAndShowsNoSecret(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	trusted := "tls=true&tls_ca=" + url.QueryEscape(ca.file)
	secured := serveWith(t, server.Options{Username: "ann", Password: "right", TLSConfig: ca.server(t), TLSTimeout: 30})
	plain := serveWith(t, server.Options{Authorization: "right"})
	_, seed := newKey(t)
	for name, c := range map[string]struct{ at, say string }{
		"wrong token":            {"nats://canary@" + plain, "refuses the token, user or key"},
		"no token":               {"nats://" + plain, "refuses the token, user or key"},
		"wrong password":         {"nats://ann:canary@" + secured + "?" + trusted, "refuses the token, user or key"},
		"unknown nkey":           {"nats://" + plain + "?nkey=" + url.QueryEscape(seed), "knows no nkeys"},
		"no file of the nkey":    {"nats://" + plain + "?nkey=/no/such", "read nkey"},
		"no file of credentials": {"nats://" + plain + "?creds=/no/such", "read creds"},
		"no file of authorities": {"nats://ann:canary@" + secured + "?tls=true&tls_ca=/no/such", "read tls_ca"},
		"another authority":      {"nats://ann:canary@" + secured + "?tls=true&tls_ca=" + url.QueryEscape(other.file), "authority that is not trusted"},
		"another name":           {"nats://ann:canary@" + secured + "?" + trusted + "&tls_name=else.example", "another host's"},
		"plain to TLS":           {"nats://ann:canary@" + secured, "authority that is not trusted"},
		"TLS to plain":           {"nats://canary@" + plain + "?" + trusted, "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What waiting can't mend is said before the time is over.
			b, err := nats.Open(t.Context(), c.at, nats.Config{ConnectTimeout: time.Hour})
			if err == nil {
				b.Close()
				t.Fatal("it opens")
			}
			if !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it says %q, want %q in one line", err, c.say)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}
