package rocketmq_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/internal/services"
)

// A broker that asks who is there. What scripts/services asks of it is let through.
const closed = `authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
authenticationWhitelist=25,28
initAuthenticationUser={"username":"root","password":"r00t-s3cret"}
innerClientAuthenticationCredentials={"accessKey":"root","secretKey":"r00t-s3cret"}
authorizationEnabled=true
authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
authorizationWhitelist=25,28
autoCreateSubscriptionGroup=false`

// Codes of requests by which users and their rights are made.
const (
	createUser = 3001
	createACL  = 3006
)

func TestWhoIsNotLetInIsToldSoAndWhoHasTheRightsGoesOn(t *testing.T) {
	onlyWhenAll(t)
	t.Setenv("SETTLE_ROCKETMQ_CONF", closed)
	server := services.Up(t, []string{"rocketmq"})[0]
	_, host, _ := strings.Cut(server.URL(), "://")
	as := func(login string) string { return "rocketmq://" + login + "@" + host }
	r := newRig(t, server.URL())
	r.at = as("root:r00t-s3cret")
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 10, 1))

	for name, login := range map[string]string{"a wrong secret": "root:wr0ng-s3cret@", "nobody of that name": "ann:s3cret@", "no login": ""} {
		cfg := r.config()
		began := time.Now()
		_, err := rocketmq.Open(t.Context(), "rocketmq://"+login+host, cfg)
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "access key") || time.Since(began) > 5*time.Second {
			t.Errorf("%s: after %v: %v", name, time.Since(began), err)
		}
	}

	admin := remoting.New(remoting.Config{AccessKey: "root", SecretKey: "r00t-s3cret"})
	t.Cleanup(admin.Close)
	nodes, err := admin.Cluster(t.Context(), r.names[0])
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%v, %v", nodes, err)
	}
	master := nodes[0].Addr
	do(t, admin, master, createUser, map[string]string{"username": "shop"}, map[string]any{"username": "shop", "password": "shop-s3cret", "userType": "Normal", "userStatus": "enable"})
	grant := func(resource string, actions ...string) {
		t.Helper()
		do(t, admin, master, createACL, map[string]string{"subject": "User:shop"}, map[string]any{"subject": "User:shop", "policies": []any{
			map[string]any{"policyType": "Custom", "entries": []any{map[string]any{"resource": resource, "actions": actions, "decision": "Allow"}}},
		}})
	}
	grant("Topic:other", "Pub")
	shop, err := rocketmq.Open(t.Context(), as("shop:shop-s3cret"), rocketmq.Config{})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, shop)
	for _, got := range shop.Publish(t.Context(), events(r.topic, "k", 3, 2)) {
		if settle.ScopeOf(got.Err) != settle.ScopeTopic || !strings.Contains(got.Err.Error(), "no right") || strings.Contains(got.Err.Error(), "s3cret") {
			t.Errorf("without the right to publish: %v", got.Err)
		}
	}
	grant("Topic:"+r.topic, "Pub", "Sub", "Get")
	grant("Group:readers", "Sub")
	publishedInTime(t, shop, events(r.topic, "k", 10, 2))
	m := deliverTo(t, b, "readers", r.topic) // b may make the group that is missing
	m.await(t, 20)
	m.stop(t)
	m = deliverTo(t, shop, "readers", r.topic)
	m.await(t, 20)
}

func do(t *testing.T, c *remoting.Client, addr string, code int, fields map[string]string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Ask(context.WithoutCancel(t.Context()), addr, remoting.Command{Code: code, Fields: fields, Body: text})
	if err != nil || a.Code != 0 {
		t.Fatalf("request %d: %v, code %d %s", code, err, a.Code, a.Remark)
	}
}

// RocketMQ's servers make themselves a certificate that nobody has signed, and speak
// TLS to whom asks for it.
func TestACertificateThatNobodyHasSignedIsNotTrusted(t *testing.T) {
	at := serverForTest(t)
	began := time.Now()
	_, err := rocketmq.Open(t.Context(), at+"?tls=true", rocketmq.Config{ConnectTimeout: patience})
	if err == nil || !strings.Contains(err.Error(), "certificate can't be trusted") || time.Since(began) > patience/2 {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestAHostThatIsNotThereIsNamed(t *testing.T) {
	_, err := rocketmq.Open(t.Context(), "rocketmq://ann:s3cret@name.invalid:9876", rocketmq.Config{ConnectTimeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "name.invalid:9876") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Open: %v", err)
	}
}

func TestEventsTravelEncryptedToServersThatAnAuthorityHasSigned(t *testing.T) {
	onlyWhenAll(t)
	dir := t.TempDir()
	authority := signed(t, dir)
	settings := filepath.Join(dir, "tls.properties")
	text := "tls.test.mode.enable=false\ntls.server.need.client.auth=none\ntls.server.keyPath=" + filepath.Join(dir, "server.key") + "\ntls.server.certPath=" + filepath.Join(dir, "server.pem") + "\n"
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SETTLE_ROCKETMQ_JVM", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dtls.config.file="+settings)
	r := newRig(t, services.Up(t, []string{"rocketmq"})[0].URL())
	plain := r.at
	r.at += "?tls=true&tls_ca=" + authority
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 10, 1))
	deliverTo(t, b, "readers", r.topic).await(t, 10)
	_, err := rocketmq.Open(t.Context(), r.at+"&tls_name=another.example", r.config())
	if err == nil || !strings.Contains(err.Error(), "another.example") || !strings.Contains(err.Error(), "tls_name") {
		t.Errorf("a certificate that is for another name: %v", err)
	}
	r.at = plain
	published(t, closing(t, r.open(t, r.config())), events(r.topic, "k", 10, 2)) // it speaks both
}

// signed makes an authority, whose file it returns, and a server's key and certificate.
func signed(t *testing.T, dir string) string {
	t.Helper()
	file := func(name, kind string, der []byte, err error) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	file("server.key", "PRIVATE KEY", der, err)
	der, err = x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, own)
	file("server.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, authority, authority, &own.PublicKey, own)
	return file("authority.pem", "CERTIFICATE", der, err)
}
