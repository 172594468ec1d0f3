package cloudevents

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

const uuid = "0190163d-8694-739b-aea5-966c26f8ad91"

func binaryHeaders(prefix string, more ...string) map[string]string {
	h := map[string]string{}
	for i := 0; i+1 < len(more); i += 2 {
		h[prefix+more[i]] = more[i+1]
	}
	for name, value := range map[string]string{"specversion": "1.0", "id": uuid, "type": "t", "source": "/s"} {
		if _, is := h[prefix+name]; !is {
			h[prefix+name] = value
		}
	}
	return h
}

func TestAnEventOfAnotherProducerIsReadAsFarAsItGoes(t *testing.T) {
	h := binaryHeaders("ce_", "subject", "o-1", "time", "2026-01-02T03:04:05.6+01:00", "comexampleother", "5", "partitionkey", "p", "correlationid", "flow", "causationid", "c", "dataschema", "urn:x", "recordedtime", "yesterday")
	h["content-type"], h["X-Plain"], h["traceparent"] = "text/plain", "kept", "00-a-b-01"
	e, is, err := Kafka.Decode(Found{Value: []byte("hello"), Headers: h, Key: "k"})
	if err != nil || !is {
		t.Fatal(is, err)
	}
	if e.ID != uuid || e.Type != "t" || e.AggregateID != "o-1" || e.TraceID != "flow" || e.CausationID != "c" || e.ContentType != "text/plain" || string(e.Payload) != "hello" || !e.AppendedAt.IsZero() {
		t.Errorf("%+v", e)
	}
	if want := time.Date(2026, 1, 2, 2, 4, 5, 600000000, time.UTC); !e.OccurredAt.Equal(want) {
		t.Errorf("it happened at %s", e.OccurredAt)
	}
	for name, value := range map[string]string{"comexampleother": "5", "partitionkey": "p", "dataschema": "urn:x", "X-Plain": "kept", "ce-source": "/s", "recordedtime": "yesterday", "traceparent": "00-a-b-01"} {
		if e.Headers[name] != value {
			t.Errorf("header %s is %q", name, e.Headers[name])
		}
	}
}

func TestTheKeyOfAnotherProducersEventIsTheFirstThatItHas(t *testing.T) {
	for _, c := range []struct{ subject, partition, key, want string }{
		{"s", "p", "k", "s"}, {"", "p", "k", "p"}, {"", "", "k", "k"}, {"", "", "", uuid}, {"", "", "\xff", uuid},
	} {
		h := binaryHeaders("ce_")
		if c.subject != "" {
			h["ce_subject"] = c.subject
		}
		if c.partition != "" {
			h["ce_partitionkey"] = c.partition
		}
		e, _, err := Kafka.Decode(Found{Value: []byte("1"), Headers: h, Key: c.key})
		if err != nil || e.AggregateID != c.want {
			t.Errorf("%+v: %v, %v", c, e, err)
		}
	}
}

// Two producers that count from 1 must not be taken for one that repeats itself.
func TestIdsThatAreUniqueForTheirSourceAloneAreToldApart(t *testing.T) {
	id := func(id, source string) string {
		e, _, err := Kafka.Decode(Found{Value: []byte("1"), Headers: binaryHeaders("ce_", "id", id, "source", source)})
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	if a, b := id("1", "/a"), id("1", "/b"); a == b || a != "1@/a" {
		t.Errorf("%q and %q", a, b)
	}
	if id(uuid, "/a") != uuid {
		t.Errorf("an id that is unique by itself became %q", id(uuid, "/a"))
	}
	long := "https://" + strings.Repeat("x", 300)
	if a, b := id("1", long+"a"), id("1", long+"b"); a == b || len(a) > settle.MaxField {
		t.Errorf("%q and %q", a, b)
	}
}

func TestEveryPrefixOfTheAMQPBindingIsRead(t *testing.T) {
	for _, prefix := range []string{"cloudEvents_", "cloudEvents:", "cloudevents_", "ce_", "ce-", "CE-"} {
		e, is, err := AMQP.Decode(Found{Value: []byte("1"), Headers: binaryHeaders(prefix, "subject", "o 100%41"), ContentType: "application/json"})
		if err != nil || !is || e.AggregateID != "o 100%41" {
			t.Errorf("%s: %v %v %v", prefix, e, is, err)
		}
	}
}

func TestHeadersOfNATSAreDecodedAsTheBindingSays(t *testing.T) {
	for in, want := range map[string]string{
		"Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀", `"a \"b\" %41"`: `a "b" A`, "%e2%82%ac": "€", "100%": "100%", "%zz": "%zz", `"`: `"`,
	} {
		e, _, err := NATS.Decode(Found{Value: []byte("1"), Headers: binaryHeaders("Ce-", "subject", in)})
		if err != nil || e.AggregateID != want {
			t.Errorf("%s: %+v, %v; want %q", in, e, err, want)
		}
	}
	if got := percentEncode("Euro € 😀"); got != "Euro%20%E2%82%AC%20%F0%9F%98%80" {
		t.Errorf("it is written as %s", got)
	}
	if _, _, err := NATS.Decode(Found{Value: []byte("1"), Headers: binaryHeaders("ce-", "subject", "%C0%A0")}); err == nil {
		t.Error("an overlong encoding was taken")
	}
}

func TestWhatIsNoCloudEventSaysWhy(t *testing.T) {
	structured := map[string]string{"content-type": "application/cloudevents+json"}
	for _, c := range []struct {
		name, value string
		headers     map[string]string
		want        string
	}{
		{"no id", "1", binaryHeaders("ce_", "id", ""), "id is missing"},
		{"no type", "1", binaryHeaders("ce_", "type", ""), "type is missing"},
		{"no source", "1", binaryHeaders("ce_", "source", ""), "source is missing"},
		{"no specversion", "1", map[string]string{"ce_id": "1", "ce_type": "t", "ce_source": "/s"}, "specversion is missing"},
		{"an old version", "1", binaryHeaders("ce_", "specversion", "0.3"), `"0.3", and only 1.0`},
		{"a time that is none", "1", binaryHeaders("ce_", "time", "noon"), "RFC 3339"},
		{"bytes that are no text", "1", binaryHeaders("ce_", "type", "\xff"), "not UTF-8"},
		{"a control character", "1", binaryHeaders("ce_", "id", "a\nb"), "control character"},
		{"data that is not JSON", "{", map[string]string{"ce_specversion": "1.0", "ce_id": "1", "content-type": "application/json"}, "not valid JSON"},
		{"a later wire of ours", "1", binaryHeaders("ce_", "settlewire", "2", "subject", "s"), "later version of Settle"},
		{"a sequence that is none", "1", binaryHeaders("ce_", "settlewire", "1", "subject", "s", "aggregateseq", "-1"), "aggregateseq"},
		{"a schema's version that is none", "1", binaryHeaders("ce_", "settlewire", "1", "subject", "s", "version", "x"), "version"},
		{"packed headers that are none", "1", binaryHeaders("ce_", "settlewire", "1", "subject", "s", "settleheaders", "[]"), "settleheaders"},
		{"a batch", "[]", map[string]string{"content-type": "application/cloudevents-batch+json"}, "batch"},
		{"another format", "x", map[string]string{"Content-Type": "Application/CloudEvents+avro"}, "+avro"},
		{"no JSON", "{", structured, "not a JSON object"},
		{"null", "null", structured, "null"},
		{"a list", "[]", structured, "not a JSON object"},
		{"bytes", "{\"a\":\"\xff\"}", structured, "not UTF-8"},
		{"an attribute that is an object", `{"specversion":"1.0","id":"1","type":"t","source":"s","x":{}}`, structured, "neither a text"},
		{"data twice", `{"specversion":"1.0","id":"1","type":"t","source":"s","data":1,"data_base64":"MQ=="}`, structured, "data_base64"},
		{"no base64", `{"specversion":"1.0","id":"1","type":"t","source":"s","data_base64":"*"}`, structured, "base64"},
		{"data that is no text", `{"specversion":"1.0","id":"1","type":"t","source":"s","datacontenttype":"text/xml","data":{}}`, structured, "not a text"},
		{"an old version without a header", `{"specversion":"0.3","id":"1","type":"t","source":"s"}`, nil, "0.3"},
		{"a value of no known kind", `{"a":1}`, nil, "eventId is missing"},
	} {
		r := settle.Record{Raw: []byte(c.value), Headers: c.headers}
		Kafka.Read(&r, "")
		if r.Event != nil || r.DecodeErr == nil || !strings.Contains(r.DecodeErr.Error(), c.want) {
			t.Errorf("%s: event %v, reason %v; want one with %q", c.name, r.Event, r.DecodeErr, c.want)
		}
		if string(r.Raw) != c.value {
			t.Errorf("%s: its bytes became %q", c.name, r.Raw)
		}
	}
}

func TestDataOfTheStructuredModeIsReadAsTheJSONFormatSays(t *testing.T) {
	for _, c := range []struct{ members, payload, contentType string }{
		{`"data": {"a" : 1.10}`, `{"a" : 1.10}`, "application/json"},
		{`"data":"I'm just a string"`, `"I'm just a string"`, "application/json"},
		{`"data":null`, `null`, "application/json"},
		{`"datacontenttype":"application/xml","data":"<much wow=\"xml\"/>"`, `<much wow="xml"/>`, "application/xml"},
		{`"datacontenttype":"application/xml","data":null`, ``, "application/xml"},
		{`"data_base64":"eyAieHl6IjogMTIzIH0="`, `{ "xyz": 123 }`, "application/octet-stream"},
		{`"datacontenttype":"application/json","data_base64":"MQ=="`, `1`, "application/json"},
		{`"datacontenttype":"application/json"`, ``, "application/json"},
		{`"subject":null,"comexampleothervalue":5,"flag":true`, ``, "application/json"},
	} {
		value := `{"specversion":"1.0","id":"1","type":"t","source":"/s",` + c.members + `}`
		for name, headers := range map[string]map[string]string{"marked": {"content-type": "application/cloudevents+json; charset=UTF-8"}, "unmarked": nil} {
			e, is, err := Kafka.Decode(Found{Value: []byte(value), Headers: headers})
			if err != nil || !is || string(e.Payload) != c.payload || e.ContentType != c.contentType {
				t.Errorf("%s, %s: %+v, %v", value, name, e, err)
			}
		}
	}
}

func TestDataWithoutAContentTypeIsJSONWhereItIs(t *testing.T) {
	for data, want := range map[string]string{`{"a":1}`: "application/json", "\x00": "application/octet-stream"} {
		e, _, err := Kafka.Decode(Found{Value: []byte(data), Headers: binaryHeaders("ce_")})
		if err != nil || e.ContentType != want || !bytes.Equal(e.Payload, []byte(data)) {
			t.Errorf("%q: %+v, %v", data, e, err)
		}
	}
}
