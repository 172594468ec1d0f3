package brokerurl_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/settlemq/settle/broker/internal/brokerurl"
)

func TestAURLIsReadInItsParts(t *testing.T) {
	u, err := brokerurl.Form{Options: []string{"a", "b"}, Many: []string{"b"}}.Parse("ann:p%40ss%2Fword@h:1,[::1]:2/v%2F?a=1&b=2&b=3&tls=true&tls_name=else")
	if err != nil || u.User != "ann" || u.Password != "p@ss/word" || !u.HasPassword || !reflect.DeepEqual(u.Hosts, []string{"h:1", "[::1]:2"}) ||
		u.Path != "v%2F" || u.Options.Get("a") != "1" || len(u.Options["b"]) != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	if c, err := u.TLS(); err != nil || c.ServerName != "else" || c.RootCAs != nil {
		t.Errorf("TLS is %+v, %v", c, err)
	}
	if u, err = (brokerurl.Form{}).Parse("h:1"); err != nil || u.User != "" || u.HasPassword {
		t.Errorf("%+v, %v", u, err)
	}
	if c, err := u.TLS(); c != nil || err != nil {
		t.Errorf("TLS is %+v, %v", c, err)
	}
	if u, err = (brokerurl.Form{Secure: true}).Parse("h:1?tls_name=x"); err != nil || u.Options.Get("tls") != "true" {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err = (brokerurl.Form{Secure: true}).Parse("h:1?tls=false"); err != nil || u.Options.Get("tls") != "false" {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestWhatIsWrongIsSaidWithoutTheSecret(t *testing.T) {
	for rest, wrong := range map[string]string{
		"canary@h":                        `"h" is not host:port`,
		"canary@":                         `"" is not host:port`,
		"ann:canary@h:1,":                 `"" is not host:port`,
		"h:99999":                         `"h:99999" is not host:port`,
		"h:port":                          `"h:port" is not host:port`,
		"canary%@h:1":                     "the token can't be read",
		"ann:canary%@h:1":                 "the password can't be read",
		"canary@h:1?x=%zz":                "can't be read",
		"h:1?ssl=true":                    `no option "ssl"; there are tls, tls_ca, tls_name, a`,
		"h:1?a=1&a=2":                     `"a" is there twice`,
		"h:1?tls=yes":                     "tls is true or false",
		"h:1?tls_ca=/x":                   "tls=true is not there",
		"canary@h:1?tls=false&tls_name=x": "tls=true is not there",
	} {
		_, err := brokerurl.Form{Options: []string{"a"}, Login: "token"}.Parse(rest)
		if err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %q", rest, err, wrong)
		}
	}
	u, err := brokerurl.Form{}.Parse("h:1?tls=true&tls_ca=/no/such")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.TLS(); err == nil || !strings.Contains(err.Error(), "read tls_ca: open /no/such") {
		t.Errorf("a file that is not there: %v", err)
	}
}
