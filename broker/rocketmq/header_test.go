package rocketmq

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle"
)

func TestHeadersThatTheBrokerWouldActOnOrNotKeepArriveAsTheyWere(t *testing.T) {
	headers := map[string]string{
		"DELAY": "3", "TIMER_DELIVER_MS": "1", "TRAN_MSG": "true", "KEYS": "mine", "TAGS": "mine", "WAIT": "false", "UNIQ_KEY": "x",
		"__SHARDINGKEY": "mine", "empty": "", "Case": "1", "case": "2", "equals": "a=b", "euro": "€",
	}
	m := settle.Message{ID: "e-1#2", Source: "shop", Event: &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o 1", BizKey: "B-1", Headers: headers}}
	properties := decodeProperties(string(appendProperties(nil, m, settle.WireHeaders(m))))
	for name, want := range map[string]string{
		"UNIQ_KEY": "e-1#2", "KEYS": "e-1 B-1", "TAGS": "order.created", "SHARDING_KEY": "o 1", "__SHARDINGKEY": "o 1",
	} {
		if properties[name] != want {
			t.Errorf("property %s is %q, want %q", name, properties[name], want)
		}
	}
	for _, name := range []string{"DELAY", "TIMER_DELIVER_MS", "TRAN_MSG", "WAIT", "empty"} {
		if _, is := properties[name]; is {
			t.Errorf("the broker is given the property %s of the event's headers", name)
		}
	}
	got := headersOf(properties)
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "settle-") })
	if !maps.Equal(got, headers) {
		t.Errorf("headers have arrived as %v", got)
	}
}

func TestWhatIsNoTagOrKeyIsNotMadeOne(t *testing.T) {
	for _, text := range []string{"", "a||b", "a|b", "*", "a b"} {
		m := settle.Message{ID: "e", Event: &settle.Event{ID: "e", Type: text, AggregateID: "k"}}
		if tag, is := decodeProperties(string(appendProperties(nil, m, settle.WireHeaders(m))))["TAGS"]; is {
			t.Errorf("type %q is the tag %q", text, tag)
		}
	}
	if got := keysOf(&settle.Event{ID: "e", AggregateID: "two words", BizKey: "e"}); got != "e" {
		t.Errorf("keys are %q", got)
	}
}

func TestPropertiesOfOthersAreReadWhateverTheyAre(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "", "a\x01b": "a=b", "a\x01b\x02": "a=b", "\x02\x02a\x01b\x01c\x02": "a=b\x01c"} {
		var got []string
		for k, v := range decodeProperties(text) {
			got = append(got, k+"="+v)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q is read as %q, want %q", text, s, want)
		}
	}
}
