package nats_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/nats"
)

// operator signs accounts, and an account of its signs users.
type operator struct {
	t       testing.TB
	claims  *jwt.OperatorClaims
	account nkeys.KeyPair
	// trusting is a server that lets users of the account in, by their JWTs alone.
	trusting server.Options
}

func newOperator(t testing.TB) *operator {
	t.Helper()
	o := &operator{t: t}
	top, public := o.pair(nkeys.CreateOperator())
	o.claims = jwt.NewOperatorClaims(public)
	accounts := &server.MemAccResolver{}
	sign := func(shape func(*jwt.AccountClaims)) (nkeys.KeyPair, string) {
		key, name := o.pair(nkeys.CreateAccount())
		account := jwt.NewAccountClaims(name)
		shape(account)
		signed, err := account.Encode(top)
		if err != nil {
			t.Fatal(err)
		}
		if err := accounts.Store(name, signed); err != nil {
			t.Fatal(err)
		}
		return key, name
	}
	o.account, _ = sign(func(a *jwt.AccountClaims) {
		a.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	})
	_, system := sign(func(*jwt.AccountClaims) {})
	o.trusting = server.Options{TrustedOperators: []*jwt.OperatorClaims{o.claims}, AccountResolver: accounts, SystemAccount: system}
	return o
}

func (o *operator) pair(key nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		o.t.Fatal(err)
	}
	return key, public
}

// user makes a file of credentials, of a JWT that shape has changed.
func (o *operator) user(shape func(*jwt.UserClaims)) (file string) {
	o.t.Helper()
	key, public := o.pair(nkeys.CreateUser())
	claims := jwt.NewUserClaims(public)
	if shape != nil {
		shape(claims)
	}
	signed, err := claims.Encode(o.account)
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(signed, seed)
	if err != nil {
		o.t.Fatal(err)
	}
	file = filepath.Join(o.t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		o.t.Fatal(err)
	}
	return file
}

func TestAUserWithCredentialsPublishesAndReads(t *testing.T) {
	o := newOperator(t)
	ca := newAuthority(t)
	o.trusting.TLSConfig, o.trusting.TLSTimeout = ca.server(t), 30
	host := serveWith(t, o.trusting)
	at := "nats://" + host + "?tls=true&tls_ca=" + url.QueryEscape(ca.file) + "&creds=" + url.QueryEscape(o.user(nil))
	b := open(t, at)
	defer b.Close()
	if got := b.Publish(t.Context(), []settle.Message{message("e", "k")})[0]; got.Err != nil {
		t.Error(got.Err)
	}
	tap, err := nats.OpenTap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	read := 0
	if err := tap.ReadAll(t.Context(), topicName, func(settle.Record) error { read++; return nil }); err != nil || read != 1 {
		t.Errorf("the tap reads %d events, %v", read, err)
	}
}

func TestCredentialsThatTheServerDoesNotTakeAreToldAtOnce(t *testing.T) {
	o := newOperator(t)
	host := serveWith(t, o.trusting)
	for name, file := range map[string]string{
		"of another operator's account": newOperator(t).user(nil),
		"that ran out":                  o.user(func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Hour).Unix() }),
	} {
		b, err := nats.Open(t.Context(), "nats://"+host+"?creds="+url.QueryEscape(file), nats.Config{ConnectTimeout: time.Hour})
		if err == nil {
			b.Close()
			t.Fatalf("credentials %s are taken", name)
		}
		if !strings.Contains(err.Error(), "refuses the token, user or key") || strings.Contains(err.Error(), "\n") {
			t.Errorf("of credentials %s it says %v", name, err)
		}
	}
}

func TestCredentialsWithoutARightToATopicAreTheTopicsFault(t *testing.T) {
	o := newOperator(t)
	host := serveWith(t, o.trusting)
	b := open(t, "nats://"+host+"?creds="+url.QueryEscape(o.user(nil)))
	defer b.Close()
	reader := open(t, "nats://"+host+"?creds="+url.QueryEscape(o.user(func(c *jwt.UserClaims) {
		c.Permissions.Pub.Allow.Add("$JS.API.>")
		c.Permissions.Sub.Allow.Add("_INBOX.>")
	})))
	defer reader.Close()
	got := reader.Publish(t.Context(), []settle.Message{message("e", "k")})[0]
	if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeTopic || !strings.Contains(got.Err.Error(), topicName+".") {
		t.Errorf("publishing without the right is %v", got.Err)
	}
}

func TestABridgeHasEnoughOfTheRightsThatTheDocumentLists(t *testing.T) {
	o := newOperator(t)
	at := "nats://" + serveWith(t, o.trusting) + "?creds="
	boss := o.user(nil)
	nc, err := natsgo.Connect(eachServer(at), natsgo.UserCredentials(boss))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c := &climber{t: t, js: js, ladder: bridge.Ladder{Topic: "orders", Group: "stock"}, at: at + url.QueryEscape(boss)}
	if err := newStreamAgain(t, c); err != nil {
		t.Fatal(err)
	}
	c.at = at + url.QueryEscape(o.user(func(u *jwt.UserClaims) {
		for _, of := range []string{"STREAM.INFO.>", "STREAM.CREATE.>", "STREAM.NAMES", "STREAM.MSG.GET.>", "STREAM.PURGE.>", "CONSUMER.INFO.>", "CONSUMER.CREATE.>"} {
			u.Permissions.Pub.Allow.Add("$JS.API." + of)
		}
		u.Permissions.Pub.Allow.Add("orders.>", "settle.retry.>")
		u.Permissions.Sub.Allow.Add("_INBOX.>")
	}))
	b, g := c.declared()
	c.publish("k", []byte("odd"), nil)
	c.giveUp("")
	l := bridgetest.Letters(t, b, g, 1)[0]
	for _, to := range l.To {
		if err := bridgetest.SendBack(t, b, g, l, to); err != nil {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if len(l.To) != 2 {
		t.Errorf("it can go to %q", l.To)
	}
	// A right that is missing is named.
	c.at = at + url.QueryEscape(o.user(func(u *jwt.UserClaims) {
		u.Permissions.Pub.Allow.Add("$JS.API.STREAM.INFO.>")
		u.Permissions.Sub.Allow.Add("_INBOX.>")
	}))
	c.publish("k", []byte("odd"), nil)
	c.giveUp("")
	c.waiting(1)
	less := c.connection(t)
	defer func() { _ = less.Close() }()
	s, err := less.Source(bridge.Group{Name: g.Name, Dead: g.Dead[:1]})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Letters(t.Context(), func(context.Context, []bridge.Letter) error { return nil }); err == nil || !strings.Contains(err.Error(), "STREAM.MSG.GET") {
		t.Errorf("without the right to read it says %v", err)
	}
}
