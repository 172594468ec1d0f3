package nats

import (
	"strings"
	"testing"
)

func TestAURLOfNATSIsReadOrSaysWhatIsWrongWithoutItsSecret(t *testing.T) {
	for at, wrong := range map[string]string{
		"nats://canary@h:4222":                                  "",
		"nats://h:4222":                                         "",
		"nats://ann:can%40ary@a:1,b:2,[::1]:3":                  "",
		"nats://canary@h:4222/?tls=true&tls_name=else":          "",
		"nats://h:4222?creds=/canary&replicas=3":                "",
		"http://h:4222":                                         "begins with nats://",
		"nats://canary@h":                                       `"h" is not host:port`,
		"nats://canary@h:port":                                  `"h:port" is not host:port`,
		"nats://canary@":                                        `"" is not host:port`,
		"nats://h:4222/topic":                                   "there is a path",
		"nats://h:4222?ssl=true":                                `no option "ssl"; there are tls, tls_ca, tls_name, creds, nkey, replicas, monitor`,
		"nats://h:4222?wire=avro":                               `no wire "avro"; there are envelope, cloudevents-binary and cloudevents-structured`,
		"nats://h:4222?tls=yes":                                 "true or false",
		"nats://h:4222?tls=true&tls=true":                       "twice",
		"nats://h:4222?tls_ca=/x":                               "tls=true is not there",
		"nats://canary@h:4222?creds=/x":                         "three ways to log in",
		"nats://h:4222?creds=/x&nkey=/y":                        "three ways to log in",
		"nats://h:4222?replicas=2":                              "replicas is 1, 3 or 5",
		"nats://h:1?monitor=http://a:2&monitor=https://b:3":     "",
		"nats://h:1?monitor=a:2":                                "monitor is http://host:port",
		"nats://ann:canary%@h:4222":                             "password can't be read",
		"nats://canary%@h:4222":                                 "token or user can't be read",
		"nats://ann:canary@h:4222?replicas=1&tls=false&bad=%zz": "can't be read",
	} {
		err := CheckURL(at)
		switch {
		case wrong == "" && err != nil:
			t.Errorf("%s: %v", at, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: got %v, want %q", at, err, wrong)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: the error shows the secret: %v", at, err)
		}
	}
}
