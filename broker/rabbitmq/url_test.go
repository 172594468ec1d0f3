package rabbitmq

import (
	"strings"
	"testing"
)

func TestAURLOfRabbitMQIsReadOrSaysWhatIsWrongWithoutItsSecret(t *testing.T) {
	for at, wrong := range map[string]string{
		"rabbitmq://ann:canary@h:5672":                             "",
		"amqp://ann:p%40ss%2Fword@h:5672/":                         "",
		"amqps://ann:canary@h:5671/shop?tls_name=else":             "",
		"rabbitmq://ann:canary@a:1,b:2,[::1]:3/a%2Fb":              "",
		"rabbitmq://ann:canary@h:5672/shop?tls=true&tls_name=else": "",
		"kafka://h:9092":                                                    "begins with rabbitmq://, amqp:// or amqps://",
		"rabbitmq://ann:canary@h":                                           `"h" is not host:port`,
		"rabbitmq://ann:canary@":                                            `"" is not host:port`,
		"rabbitmq://h:5672":                                                 "no user:password",
		"rabbitmq://canary@h:5672":                                          "no user:password",
		"rabbitmq://ann:canary@h:5672/a/b":                                  "more than a virtual host",
		"rabbitmq://ann:canary@h:5672/%":                                    "virtual host can't be read",
		"rabbitmq://ann:canary%@h:5672":                                     "password can't be read",
		"rabbitmq://ann:canary@h:5672?ssl=true":                             `no option "ssl"; there are tls, tls_ca, tls_name, management`,
		"rabbitmq://ann:canary@h:5672?wire=avro":                            `no wire "avro"; there are envelope, cloudevents-binary and cloudevents-structured`,
		"rabbitmq://ann:canary@h:5672?tls=yes":                              "true or false",
		"rabbitmq://ann:canary@h:5672?tls=true&tls=true":                    "twice",
		"rabbitmq://ann:canary@h:5672?tls_ca=/x":                            "tls=true is not there",
		"rabbitmq://ann:canary@h:5672?management=http://h:15672":            "",
		"rabbitmq://ann:canary@h:5672?management=https%3A%2F%2Fh%3A15671/a": "",
		"rabbitmq://ann:canary@h:5672?management=h:15672":                   "http://host:port",
		"rabbitmq://ann:canary@h:5672?management=http://canary@h:15672":     "names no user",
		"rabbitmq://ann:canary@h:5672?management=http://h:15672?a=b":        "ends with its host",
	} {
		err := CheckURL(at)
		switch {
		case wrong == "" && err != nil:
			t.Errorf("%s: %v", at, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: got %v, want %q", at, err, wrong)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: the error shows the password: %v", at, err)
		}
	}
}

func TestAURLNamesTheVirtualHost(t *testing.T) {
	for at, want := range map[string]string{
		"amqp://a:b@h:1": "/", "amqp://a:b@h:1/": "/", "amqp://a:b@h:1/shop": "shop", "amqp://a:b@h:1/%2F": "/", "amqp://a:b@h:1/a%2Fb?tls=false": "a/b",
	} {
		if a, err := parseURL(at); err != nil || a.vhost != want {
			t.Errorf("%s: virtual host %q, %v; want %q", at, a.vhost, err, want)
		}
	}
}
