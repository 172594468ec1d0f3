package kafka

import (
	"strings"
	"testing"
)

func TestAURLOfKafkaIsReadOrSaysWhatIsWrongWithoutItsSecret(t *testing.T) {
	for at, wrong := range map[string]string{
		"kafka://h:9092":                                    "",
		"kafka://a:1,b:2,[::1]:3":                           "",
		"kafka://ann:p%40ss%2Fword@h:9092?sasl=plain":       "",
		"kafka://ann:canary@h:9092/?tls=true&tls_name=else": "",
		"kafka://h:9092?fence=true":                         "",
		"kafka://h:9092?fence=1":                            "fence is true or false",
		"http://h:9092":                                     "begins with kafka://",
		"kafka://h":                                         `"h" is not host:port`,
		"kafka://":                                          `"" is not host:port`,
		"kafka://h:9092/topic":                              "there is a path",
		"kafka://h:9092?ssl=true":                           `no option "ssl"; there are tls, tls_ca, tls_name, sasl`,
		"kafka://h:9092?wire=avro":                          `no wire "avro"; there are envelope, cloudevents-binary and cloudevents-structured`,
		"kafka://h:9092?tls=yes":                            "true or false",
		"kafka://h:9092?tls=true&tls=true":                  "twice",
		"kafka://h:9092?tls_ca=/x":                          "tls=true is not there",
		"kafka://h:9092?sasl=plain":                         "no user:password",
		"kafka://ann:canary@h:9092?sasl=gssapi":             `no sasl "gssapi"`,
		"kafka://ann:canary%@h:9092":                        "password can't be read",
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
