package cli_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/server"
)

// authority is a CA of the test's own.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(a.file, "CERTIFICATE", der)
	return a
}

// sign makes a certificate and its key; without a signer it signs itself.
func (a *authority) sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *authority) write(path, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// serve gives a server a certificate for 127.0.0.1.
func (a *authority) serve(s *pgserver.Server) {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	info, err := os.Stat(s.DataDir())
	if err != nil {
		a.t.Fatal(err)
	}
	// The server takes a key only that is its own user's.
	owner := info.Sys().(*syscall.Stat_t)
	for name, write := range map[string]func(path string){
		"server.crt": func(path string) { a.write(path, "CERTIFICATE", der) },
		"server.key": func(path string) { a.write(path, "EC PRIVATE KEY", keyDER) },
	} {
		path := filepath.Join(s.DataDir(), name)
		write(path)
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			a.t.Fatal(err)
		}
	}
	s.Exec("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
	s.Await("SELECT setting = 'on' FROM pg_settings WHERE name = 'ssl'")
}

// TestAConnectionIsEncryptedAndChecksWhoAnswersAndNoPasswordIsShown takes the
// password from the environment and from a file, with characters that a URL
// knows.
func TestAConnectionIsEncryptedAndChecksWhoAnswersAndNoPasswordIsShown(t *testing.T) {
	const canary = "c4n4ry"
	const password = canary + "@/:?#% x"
	own, ours, theirs := pgserver.Own(t), newAuthority(t), newAuthority(t)
	ours.serve(own)
	own.Exec("CREATE ROLE app LOGIN PASSWORD '"+password+"'", "CREATE SCHEMA app AUTHORIZATION app")
	dir, broker := t.TempDir(), serveBroker(t)
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PASSWORD", password)
	t.Setenv("WRONG", canary+"-wrong")
	at := func(secret, ca string) string {
		return "postgres://app:" + secret + "@" + own.Host() + "/postgres?search_path=app&sslmode=verify-full&sslrootcert=" + ca
	}
	must(t, cli.ExitOK, "migrate", "--db", at("${PASSWORD}", ours.file))
	own.Exec("SELECT 1 / count(*) FROM pg_tables WHERE schemaname = 'app' AND tableowner = 'app'")
	var shown strings.Builder
	for name, c := range map[string]struct{ url, says string }{
		"from a file":     {at("${file:"+file+"}", ours.file), ""},
		"wrong CA":        {at("${PASSWORD}", theirs.file), "signed by nobody whom sslrootcert names; make the server and the URL agree on TLS (sslmode, sslrootcert)"},
		"no CA":           {at("${PASSWORD}", filepath.Join(dir, "none.pem")), "none.pem: no such file or directory"},
		"not a CA":        {at("${PASSWORD}", file), "sslrootcert"},
		"wrong password":  {at("${WRONG}", ours.file), "password authentication failed for user \"app\""},
		"without TLS":     {strings.Replace(at("${WRONG}", ours.file), "verify-full", "disable", 1), "password authentication failed"},
		"another address": {strings.Replace(at("${PASSWORD}", ours.file), "127.0.0.1", "localhost", 1), "wanted to match localhost; make"},
	} {
		want := map[bool]int{true: cli.ExitOK, false: cli.ExitUnreachable}[c.says == ""]
		config := writeConfig(t, dir, "sources: {order: {db: '"+c.url+"', broker: '"+broker+"'}}\n")
		for _, args := range [][]string{{"serve", "-c", config, "--check"}, {"doctor", "--db", c.url}, {"migrate", "status", "--db", c.url}} {
			code, out, errs := run(t, args...)
			if code != want || !strings.Contains(out+errs, c.says) || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
				t.Errorf("%s: %s exits %d and says\n%s%s", name, args[0], code, out, errs)
			}
			shown.WriteString(out + errs)
		}
	}
	config := writeConfig(t, dir, "sources:\n  good: {db: '"+at("${PASSWORD}", ours.file)+"', broker: '"+broker+"'}\n  wrong: {db: '"+at("${WRONG}", ours.file)+"', broker: '"+broker+"'}\n")
	s := serve(t, config)
	h := s.await(t, "leading", func(h server.Health) bool {
		return sourceIs("good", server.StateLeading)(h) && sourceIs("wrong", server.StateUnreachable)(h)
	})
	own.Await("SELECT count(*) > 0 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'")
	shown.WriteString(h.Sources["wrong"].Cause)
	s.term(t)
	shown.WriteString(s.log.String())
	if strings.Contains(shown.String(), canary) {
		t.Errorf("a password is shown:\n%s", shown.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := connect(ctx, at("x", theirs.file), ""); err == nil {
		t.Error("whoever answers is taken for the server")
	}
}
