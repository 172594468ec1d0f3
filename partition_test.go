package settle

import (
	"hash/fnv"
	"testing"
)

func TestPartitionOfIsFNV1aModuloN(t *testing.T) {
	for _, key := range []string{"", "o-1", "4711", "€uro 😀", "a%b"} {
		h := fnv.New32a()
		_, _ = h.Write([]byte(key))
		if got, want := PartitionOf(key, 16), int(h.Sum32()%16); got != want {
			t.Errorf("key %q goes to %d, FNV-1a says %d", key, got, want)
		}
	}
}

func TestAMessageThatCanNotBeEncodedIsARecordErrorForGood(t *testing.T) {
	event := func(change func(*Event)) *Event {
		e := &Event{ID: "e1", Type: "order.created", AggregateID: "o-1", Payload: []byte(`{}`)}
		change(e)
		return e
	}
	good := Message{ID: "e1", Event: event(func(*Event) {})}
	if err := good.Validate(); err != nil {
		t.Fatalf("a good message is refused: %v", err)
	}
	for name, m := range map[string]Message{
		"no event":            {ID: "e1"},
		"no id":               {Event: event(func(*Event) {})},
		"line break in id":    {ID: "e1\r\nx: y", Event: event(func(*Event) {})},
		"no type":             {ID: "e1", Event: event(func(e *Event) { e.Type = "" })},
		"no key":              {ID: "e1", Event: event(func(e *Event) { e.AggregateID = "" })},
		"key not UTF-8":       {ID: "e1", Event: event(func(e *Event) { e.AggregateID = "\xff" })},
		"cut JSON":            {ID: "e1", Event: event(func(e *Event) { e.Payload = []byte(`{"a":`) })},
		"line break in value": {ID: "e1", Event: event(func(e *Event) { e.Headers = map[string]string{"a": "b\r\nc"} })},
	} {
		if err := m.Validate(); ScopeOf(err) != ScopeRecord || !IsPermanent(err) {
			t.Errorf("%s: got %v, want a permanent record error", name, err)
		}
	}
}
