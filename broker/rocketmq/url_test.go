package rocketmq

import (
	"slices"
	"strings"
	"testing"
)

func TestAURLSaysWhatItSaysAndAWrongOneShowsNoSecret(t *testing.T) {
	a, err := parseURL("rocketmq://ann%40x:s%3acret@ns1:9876,ns2:9876?any=true")
	if err != nil || a.accessKey != "ann@x" || a.secret != "s:cret" || !a.any || !slices.Equal(a.servers, []string{"ns1:9876", "ns2:9876"}) || a.tls != nil {
		t.Errorf("it is read as %+v, %v", a, err)
	}
	for _, u := range []string{
		"rocketmq://", "rocketmq://s3cret@h:1", "rocketmq://ann:s3cret@h", "rocketmq://ann:s3cret@h:1/topic", "rocketmq://ann:s3cret@h:1?any=1",
		"rocketmq://:s3cret@h:1", "rocketmq://ann:s3cret@h:1?tls=maybe", "rocketmq://ann:s3cret%@h:1", "kafka://ann:s3cret@h:1",
	} {
		if err := CheckURL(u); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestNamesThatRocketMQCanNotHaveAreRefusedWithASentence(t *testing.T) {
	for _, name := range []string{"", "order.events", "bestellung-ä", "a b", strings.Repeat("t", 128), "TBW102", "rmq_sys_x", "%RETRY%g", "%DLQ%g"} {
		if why := badTopic(name); why == "" {
			t.Errorf("%q is a topic", name)
		}
	}
	for _, name := range []string{"order-domain-event", "a_B|c%9", strings.Repeat("t", 127)} {
		if why := badTopic(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
	if badGroup(strings.Repeat("g", 121)) == "" || badGroup("g.h") == "" || badGroup("g-h") != "" {
		t.Error("groups are taken for others")
	}
}
