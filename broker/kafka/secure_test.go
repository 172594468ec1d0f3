package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/kafka"
)

// secured is the listener with TLS and users of the Kafka that tests use.
type secured struct {
	plain, at, password, ca string
}

// securedForTest finds it one port above the one without. Its password and the
// authority that signed its certificate are in the folder of scripts/services,
// or in the one that SETTLE_TEST_KAFKA_DIR names.
func securedForTest(t *testing.T) secured {
	t.Helper()
	plain := strings.TrimPrefix(serverForTest(t), "kafka://")
	host, port, err := net.SplitHostPort(plain)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("SETTLE_TEST_KAFKA_DIR")
	if dir == "" {
		state := os.Getenv("SETTLE_SERVICES_DIR")
		if state == "" {
			state = filepath.Join(os.TempDir(), fmt.Sprintf("settle-services-%d", os.Getuid()))
		}
		dir = filepath.Join(state, "kafka")
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("SETTLE_TEST_KAFKA_DIR has to name the folder of the service kafka: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_KAFKA_DIR has to name the folder of the service kafka: %v", err)
	}
	return secured{plain: plain, at: net.JoinHostPort(host, fmt.Sprint(atoi(t, port)+1)), password: string(password), ca: filepath.Join(dir, "ca.pem")}
}

func (s secured) url(user, password, at string, options ...string) string {
	return "kafka://" + url.UserPassword(user, password).String() + "@" + at + "?" + strings.Join(options, "&")
}

func TestEventsTravelEncryptedForUsersOfEachMechanism(t *testing.T) {
	s := securedForTest(t)
	for _, sasl := range []string{"", "sasl=plain", "sasl=scram-sha-256", "sasl=scram-sha-512"} {
		t.Run(sasl, func(t *testing.T) {
			r := newRig(t, "kafka://"+s.plain)
			options := []string{"tls=true", "tls_ca=" + url.QueryEscape(s.ca)}
			if sasl != "" {
				options = append(options, sasl)
			}
			b := openForTest(t, s.url("settle", s.password, s.at, options...), kafka.Config{Declare: true, Partitions: 1})
			defer b.Close()
			got := newSink()
			if receipt := publishOne(t, b, r.messageOf("k", 1, 0)); receipt.Err != nil {
				t.Fatal(receipt.Err)
			}
			leave := r.join(t, b, "g-"+r.topic, got)
			got.await(t, 1)
			leave()
		})
	}
}

func TestOpenSaysWhatIsWrongWithAListenerAndShowsNoSecret(t *testing.T) {
	s := securedForTest(t)
	other := filepath.Join(t.TempDir(), "other.pem")
	writeAuthority(t, other)
	ca, wrongCA := "tls_ca="+url.QueryEscape(s.ca), "tls_ca="+url.QueryEscape(other)
	const canary = "canary-password"
	for name, c := range map[string]struct {
		at, say string
		atOnce  bool
	}{
		"wrong password, PLAIN":     {s.url("settle", canary, s.at, "tls=true", ca, "sasl=plain"), "refuses the user or the password", true},
		"wrong password, SCRAM-256": {s.url("settle", canary, s.at, "tls=true", ca, "sasl=scram-sha-256"), "refuses the user or the password", true},
		"wrong password, SCRAM-512": {s.url("settle", canary, s.at, "tls=true", ca), "refuses the user or the password", true},
		"unknown user":              {s.url("nobody", canary, s.at, "tls=true", ca), "refuses the user or the password", true},
		"wrong authority":           {s.url("settle", canary, s.at, "tls=true", wrongCA), "authority that is not trusted", true},
		"wrong name":                {s.url("settle", canary, s.at, "tls=true", ca, "tls_name=else.example"), "another host's", true},
		"user on a plain listener":  {s.url("settle", canary, s.plain), "sasl", false},
		"TLS on a plain listener":   {s.url("settle", canary, s.plain, "tls=true", ca), "speaks TLS", false},
		"plain on a TLS listener":   {s.url("settle", canary, s.at), "tls=true is not there", false},
		"no user":                   {"kafka://" + s.at + "?tls=true&" + ca, "wants a user", false},
		"unknown host":              {s.url("settle", canary, "no.such.host.invalid:9092"), "the host is not known", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j journal
			// What waiting can't mend is said before the time is over.
			cfg := kafka.Config{ConnectTimeout: patience, Log: j.logger()}
			if !c.atOnce {
				cfg.ConnectTimeout = 2 * time.Second
			}
			began := time.Now()
			b, err := kafka.Open(t.Context(), c.at, cfg)
			if err == nil {
				b.Close()
				t.Fatal("it opens")
			}
			if !strings.Contains(err.Error(), c.say) {
				t.Errorf("it says %q, want %q", err, c.say)
			}
			if time.Since(began) > patience/2 {
				t.Errorf("it took %s", time.Since(began))
			}
			if said := err.Error() + strings.Join(j.lines(""), ""); strings.Contains(said, canary) || strings.Contains(said, s.password) {
				t.Errorf("a secret is shown: %s", said)
			}
		})
	}
}

// writeAuthority makes a certificate authority that has signed nothing.
func writeAuthority(t testing.TB, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another authority"}, IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
