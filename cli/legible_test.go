package cli

import "testing"

func TestAPayloadIsReadableAndHarmless(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1,"b":["x\u001b[2J"]}`:    "{\n    \"a\": 1,\n    \"b\": [\n      \"x\\u001b[2J\"\n    ]\n  }",
		"{\"a\":\"\u202egpj.exe\x7f\"}": "{\n    \"a\": \"\\u202egpj.exe\\x7f\"\n  }",
		`{}`:                            `{}`,
		"":                              `""`,
		"{\"cut off\x1b[2J":             `"{\"cut off\x1b[2J"`,
		"{\"a\":\"line\nline\"}":        `"{\"a\":\"line\nline\"}"`,
	} {
		if got := legiblePayload([]byte(body), "  "); got != want {
			t.Errorf("%q is shown as\n%s\nwant\n%s", body, got, want)
		}
	}
}
