package kafka

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

func headers(pairs ...string) []kgo.RecordHeader {
	var all []kgo.RecordHeader
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return all
}

func TestWhatSpringWritesOfADeathIsReadAndWhatIsMissingOrBrokenIsNotInvented(t *testing.T) {
	for name, c := range map[string]struct {
		headers []kgo.RecordHeader
		want    bridge.Letter
	}{
		"nothing": {nil, bridge.Letter{}},
		"a DeadLetterPublishingRecoverer": {
			headers(dltTopic, "orders", dltPartition, "\x00\x00\x00\x07", dltOffset, "\x00\x00\x00\x00\x00\x01\x00\x02", dltException, "java.lang.IllegalStateException", attemptsMade, "\x00\x00\x00\x0a"),
			bridge.Letter{From: bridge.Place{Topic: "orders", Partition: 7, Offset: 65538}, Exception: "java.lang.IllegalStateException", Attempts: 10},
		},
		"a retry topic that died there again": {
			headers(retryTopic, "orders", retryPartition, "\x00\x00\x00\x01", retryOffset, "\x00\x00\x00\x00\x00\x00\x00\x05", dltTopic, "orders-retry-0", dltPartition, "\x00\x00\x00\x02",
				retryException, "org.springframework.kafka.listener.ListenerExecutionFailedException", retryCause, "a.B", attemptsComing, "\x00\x00\x00\x04"),
			bridge.Letter{From: bridge.Place{Topic: "orders", Partition: 1, Offset: 5}, Exception: "a.B", Attempts: 3},
		},
		"one that died twice, by other headers each time": {
			headers(dltTopic, "orders", dltTopic, "orders-dlt", dltException, "old.E", dltException, "new.E", attemptsComing, "\x03"),
			bridge.Letter{From: bridge.Place{Topic: "orders"}, Exception: "new.E", Attempts: 2},
		},
		"one that had gone back to its group": {
			headers("settle-origin", `{"topic":"orders","partition":3,"offset":9}`, dltTopic, "orders-g-retry-1"),
			bridge.Letter{From: bridge.Place{Topic: "orders", Partition: 3, Offset: 9}},
		},
		"an origin of somebody else's words": {
			headers("settle-origin", "from home", dltTopic, "orders"),
			bridge.Letter{From: bridge.Place{Topic: "orders"}},
		},
		"bytes of other lengths": {
			headers(dltPartition, "\x01", dltOffset, "12345678901", attemptsComing, "123456789", attemptsMade, "", dltException, ""),
			bridge.Letter{},
		},
		"numbers below zero": {
			headers(dltPartition, "\xff\xff\xff\xff", dltOffset, "\xff\xff\xff\xff\xff\xff\xff\xff", attemptsComing, "\xff", attemptsMade, "\xff\xff\xff\xff"),
			bridge.Letter{From: bridge.Place{Partition: -1, Offset: -1}},
		},
	} {
		told := cause{c.headers}
		got := bridge.Letter{From: told.origin(), Exception: told.exception(), Attempts: told.attempts()}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestARecordComesBackFromItsWrappingAsItWasWithoutItsDeath(t *testing.T) {
	s := &letterSource{b: &Broker{cfg: Config{}.withDefaults()}, g: bridge.Group{Name: "g", Dead: []string{"orders-dlt"}, Retry: "orders-g-retry-1"}}
	for name, r := range map[string]*kgo.Record{
		"empty":     {Key: []byte{}, Value: []byte{}},
		"tombstone": {Key: []byte("k")},
		"no key":    {Value: []byte("v")},
		"bytes":     {Key: []byte("\xff\x00"), Value: []byte("\xff"), Headers: append(headers("b", "\xff\x00", "", "no name", "twice", "1", "z", "1", "twice", "2"), kgo.RecordHeader{Key: "null"})},
		"text":      {Key: []byte("订单"), Value: []byte("{}"), Headers: headers("traceparent", "t", "large", strings.Repeat("x", 900_000))},
	} {
		dead := &kgo.Record{Topic: "orders-dlt", Key: r.Key, Value: r.Value, Headers: append(headers(bridge.HeaderReturn, "r0", retryPartition, "x"), r.Headers...)}
		dead.Headers = append(dead.Headers, headers(dltTopic, "orders", dltTrace, strings.Repeat("at x\n", 100_000), dltGroup, "g", attemptsComing, "\x00\x00\x00\x02", "kafka_exception-new-one", "?", deserializeValue, "java")...)
		l := s.letter([16]byte{1}, dead)
		if len(l.Wrapping) > maxWrapping || l.ReturnID != "r0" {
			t.Errorf("%s: the letter is wrapped in %d bytes, was returned by %q", name, len(l.Wrapping), l.ReturnID)
		}
		got, err := s.way(bridge.Return{ID: "r1", To: bridge.ToGroup, Letter: l})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &kgo.Record{Topic: "orders-g-retry-1", Key: r.Key, Value: r.Value, Headers: append(r.Headers[:len(r.Headers):len(r.Headers)], headers(bridge.HeaderReturn, "r1", "settle-origin", `{"topic":"orders"}`)...)}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it comes back as\n%+v, was\n%+v", name, got, want)
		}
	}
}

func TestWhatHasNoRoomInAWrappingIsKeptAndCanNotGoBack(t *testing.T) {
	s := &letterSource{b: &Broker{}, g: bridge.Group{Name: "g", Dead: []string{"orders-dlt"}, Retry: "r"}}
	for name, h := range map[string][]kgo.RecordHeader{"bytes": headers("b", strings.Repeat("\xff", 60_000)), "a name": headers("\xff", "v")} {
		l := s.letter([16]byte{1}, &kgo.Record{Topic: "orders-dlt", Value: []byte("v"), Headers: append(h, headers(dltTopic, "orders")...)})
		if l.Wrapping != nil || l.To != nil || string(l.Record.Raw) != "v" {
			t.Errorf("%s: the letter is %+v", name, l.To)
		}
		if _, err := s.way(bridge.Return{ID: "r1", To: bridge.ToOrigin, Letter: l}); err == nil {
			t.Errorf("%s: it goes back", name)
		}
	}
}

func TestALetterOfAnotherGroupGoesToItsOriginOnly(t *testing.T) {
	s := &letterSource{b: &Broker{}, g: bridge.Group{Name: "points", Dead: []string{"orders-dlt"}, Retry: "r"}}
	for group, want := range map[string][]bridge.Target{"points": {bridge.ToGroup, bridge.ToOrigin}, "": {bridge.ToGroup, bridge.ToOrigin}, "stock": {bridge.ToOrigin}} {
		if l := s.letter([16]byte{}, &kgo.Record{Topic: "orders-dlt", Headers: headers(dltTopic, "orders", dltGroup, group)}); !reflect.DeepEqual(l.To, want) {
			t.Errorf("a letter of group %q goes to %v, want %v", group, l.To, want)
		}
	}
	for name, from := range map[string]string{"no origin": "", "the topic itself": "orders-dlt", "no topic of Kafka's": "a b"} {
		if l := s.letter([16]byte{}, &kgo.Record{Topic: "orders-dlt", Headers: headers(dltTopic, from)}); !reflect.DeepEqual(l.To, []bridge.Target{bridge.ToGroup}) {
			t.Errorf("%s: it goes to %v", name, l.To)
		}
	}
}

func TestWhatALetterTellsIsText(t *testing.T) {
	s := &letterSource{b: &Broker{}, g: bridge.Group{Name: "g", Dead: []string{"d"}}}
	l := s.letter([16]byte{1, 2}, &kgo.Record{
		Topic: "d", Partition: 3, Offset: 4, Key: []byte("\xff\x00"), Timestamp: time.UnixMilli(1_700_000_000_000),
		Headers: headers("\xfe", "\xff", dltMessage, "a\x00b\xff", dltOffset, "\x00\x00\x00\x00\x00\x00\x00\x09", attemptsComing, "\x02", dltTime, "\x00\x00\x01\x8b\xcf\xe5\x68\x00"),
	})
	if _, err := json.Marshal(l.Record.Headers); err != nil || strings.Contains(l.Record.Key+l.Message+l.Identity, "\x00") {
		t.Errorf("the letter is %+v", l)
	}
	if l.Record.Headers[dltOffset] != "9" || l.Record.Headers[attemptsComing] != "2" || l.Record.Headers[dltTime] != "1700000000000" || l.Record.Headers["\uFFFD"] != "\uFFFD" {
		t.Errorf("the headers are %q", l.Record.Headers)
	}
	if l.Class != settle.ClassDecode || !l.DiedAt.Equal(time.UnixMilli(1_700_000_000_000)) || l.Identity != "kafka.AQIAAAAAAAAAAAAAAAAAAA.3.4" {
		t.Errorf("the letter is %+v", l)
	}
}

func TestARecordThatHasNoTimeTellsNone(t *testing.T) {
	s := &letterSource{b: &Broker{}, g: bridge.Group{Name: "g", Dead: []string{"d"}}}
	none, some := &kgo.Record{Topic: "d", Timestamp: time.UnixMilli(-1)}, &kgo.Record{Topic: "d", Timestamp: time.UnixMilli(1_700_000_000_000)}
	if l := s.letter([16]byte{}, none); !record(none).RecordedAt.IsZero() || !l.Record.RecordedAt.IsZero() || !l.DiedAt.IsZero() {
		t.Errorf("without a time it was recorded at %s, the letter at %s, and it died at %s", record(none).RecordedAt, l.Record.RecordedAt, l.DiedAt)
	}
	if !record(some).RecordedAt.Equal(some.Timestamp) {
		t.Errorf("it was recorded at %s", record(some).RecordedAt)
	}
}
