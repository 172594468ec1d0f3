package remoting

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestKeysThatAreNumbersAreRead(t *testing.T) {
	var got any
	if err := decodeLenient([]byte(`{"brokerAddrs":{0:"a:1",-1:"b:2" , 12 : "c"},"list":[1,2,{3:4}],"text":"{5:\"6\",7:8}"}`), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"brokerAddrs": map[string]any{"0": "a:1", "-1": "b:2", "12": "c"},
		"list":        []any{1.0, 2.0, map[string]any{"3": 4.0}}, "text": `{5:"6",7:8}`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it reads\n%v, want\n%v", got, want)
	}
}

func FuzzLenientReadingEndsAndAgreesWithJSON(f *testing.F) {
	for _, text := range []string{`{0:"a"}`, `{"a":[1,{2:3}]}`, `"\`, `[[[[`, `{"a":1,}`, `{1`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var lenient, strict any
		if json.Unmarshal(body, &strict) != nil {
			_ = decodeLenient(body, &lenient) // it ends
			return
		}
		if err := decodeLenient(body, &lenient); err == nil && !reflect.DeepEqual(lenient, strict) {
			t.Errorf("%q reads %v, and is %v", body, lenient, strict)
		}
	})
}
