package settle_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/settlemq/settle"
)

// refusedField is the field that a publisher's check refuses e for, "" for none.
func refusedField(t testing.TB, e *settle.Event) string {
	t.Helper()
	err := settle.Message{ID: "m", Event: e}.Validate()
	var invalid *settle.InvalidEventError
	if err != nil && !errors.As(err, &invalid) {
		t.Fatalf("%v names no field", err)
	}
	if err == nil {
		return ""
	}
	return invalid.Field
}

// jsonVerdicts counts what was said of payloads, and fails where it differs
// from encoding/json.
type jsonVerdicts struct {
	testing.TB
	valid, invalid int
}

func (v *jsonVerdicts) check(payload string) {
	v.Helper()
	e := created()
	e.ID, e.Payload = "e", []byte(payload)
	want := json.Valid(e.Payload)
	if got := refusedField(v, e) == ""; got != want {
		v.Fatalf("payload %.200q is taken for valid: %t; encoding/json says %t", payload, got, want)
	}
	if want {
		v.valid++
	} else {
		v.invalid++
	}
}

func (v *jsonVerdicts) both() {
	v.Helper()
	if v.valid == 0 || v.invalid == 0 {
		v.Errorf("%d valid and %d invalid payloads show nothing", v.valid, v.invalid)
	}
}

func TestAPayloadIsJSONWhereEncodingJSONSaysSo(t *testing.T) {
	v := jsonVerdicts{TB: t}
	t.Run("all short texts", func(*testing.T) {
		const alphabet = "{}[]\",:\\ u01-.eE+t\n"
		var grow func(text string)
		grow = func(text string) {
			v.check(text)
			for i := 0; i < len(alphabet) && len(text) < 4; i++ {
				grow(text + alphabet[i:i+1])
			}
		}
		grow("")
	})
	t.Run("each byte at each place of a string", func(*testing.T) {
		for c := range 256 {
			for n := range 20 {
				text := `"` + strings.Repeat("x", n) + string([]byte{byte(c)})
				v.check(text + `"`)
				v.check(text + strings.Repeat("é", 5) + `"`)
				v.check(text)
			}
		}
	})
	t.Run("nesting", func(*testing.T) {
		for _, n := range []int{1, 9_999, 10_000, 10_001} {
			v.check(strings.Repeat("[", n) + strings.Repeat("]", n))
			v.check(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
		}
	})
	t.Run("documents and spoiled ones", func(*testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			text := jsonText(r, 4)
			v.check(text)
			for range r.IntN(3) + 1 {
				text = spoil(r, text)
			}
			v.check(text)
		}
	})
	v.both()
}

func jsonText(r *rand.Rand, depth int) string {
	space := []string{"", "", " ", "\n\t"}[r.IntN(4)]
	kind := r.IntN(7)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return space + []string{"true", "false", "null"}[r.IntN(3)]
	case 1, 2:
		return []string{"0", "-1", "12.50", "-0.1e+10", "9E9", "1e-2", "20384"}[r.IntN(7)] + space
	case 3, 4:
		pieces := []string{"plain", "é€𝄞", `\u00e9`, `\\`, `\"`, `\n`, "\x7f", "a longer piece of text", "\xff"}
		text := ""
		for range r.IntN(6) {
			text += pieces[r.IntN(len(pieces))]
		}
		return `"` + text + `"`
	case 5:
		var all []string
		for range r.IntN(4) {
			all = append(all, jsonText(r, depth-1))
		}
		return "[" + space + strings.Join(all, ","+space) + "]"
	}
	var all []string
	for range r.IntN(4) {
		all = append(all, `"k"`+space+":"+jsonText(r, depth-1))
	}
	return space + "{" + strings.Join(all, ",") + "}" + space
}

func spoil(r *rand.Rand, text string) string {
	i := r.IntN(len(text) + 1)
	const bad = "{}[]\",:\\ue0-.+ \n\x00\x1f\x80"
	with := string([]byte{bad[r.IntN(len(bad))]})
	switch cut := min(len(text), i+1); r.IntN(3) {
	case 0:
		return text[:i] + text[cut:]
	case 1:
		return text[:i] + with + text[cut:]
	default:
		return text[:i] + with + text[i:]
	}
}

func FuzzAPayloadIsJSONWhereEncodingJSONSaysSo(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.5e-3,"x\u00e9"]}`, `"12345678\"`, "[[]", ` null `} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := jsonVerdicts{TB: t}
		v.check(text)
	})
}

// badFieldOf says what is wrong with a text, a byte at a time.
func badFieldOf(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return len(s) > settle.MaxField || !utf8.ValidString(s)
}

func TestEachFieldIsCheckedByteForByte(t *testing.T) {
	fields := map[string]func(*settle.Event) *string{
		"eventId": func(e *settle.Event) *string { return &e.ID }, "eventType": func(e *settle.Event) *string { return &e.Type },
		"aggregateType": func(e *settle.Event) *string { return &e.AggregateType }, "aggregateId": func(e *settle.Event) *string { return &e.AggregateID },
		"bizKey": func(e *settle.Event) *string { return &e.BizKey }, "traceId": func(e *settle.Event) *string { return &e.TraceID },
		"causationId": func(e *settle.Event) *string { return &e.CausationID }, "topic": func(e *settle.Event) *string { return &e.Topic },
		"contentType": func(e *settle.Event) *string { return &e.ContentType }, "supersedes": func(e *settle.Event) *string { return &e.Supersedes },
	}
	r := rand.New(rand.NewPCG(3, 4))
	for name, of := range fields {
		refused, taken := 0, 0
		check := func(text string) {
			e := created()
			e.ID = "e"
			*of(e) = text
			want := ""
			if badFieldOf(text) {
				want = name
			}
			if got := refusedField(t, e); got != want {
				t.Fatalf("%s %q is refused for %q, want %q", name, text, got, want)
			}
			if want == "" {
				taken++
			} else {
				refused++
			}
		}
		for c := range 256 {
			for n := range 18 {
				check("x" + strings.Repeat("y", n) + string([]byte{byte(c)}) + strings.Repeat("z", r.IntN(12)))
			}
		}
		for n := settle.MaxField - 2; n < settle.MaxField+3; n++ {
			check(strings.Repeat("x", n))
			check(strings.Repeat("x", n-2) + "é")
		}
		check("中文-é-𝄞")
		if refused == 0 || taken == 0 {
			t.Errorf("%s: %d refused, %d taken: nothing is shown", name, refused, taken)
		}
	}
}

func TestTimesHaveYearsOfFourDigits(t *testing.T) {
	east, west := time.FixedZone("east", 14*3600), time.FixedZone("west", -12*3600)
	for _, at := range []time.Time{
		{}, now, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Add(-1), time.Date(0, 1, 1, 0, 0, 0, 0, east),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, west), time.Unix(1<<62, 0), time.Unix(-1<<62, 0), time.UnixMilli(-1 << 63), time.UnixMilli(1<<63 - 1),
	} {
		for name, set := range map[string]func(*settle.Event){
			"occurredAt": func(e *settle.Event) { e.OccurredAt = at }, "appendedAt": func(e *settle.Event) { e.AppendedAt = at },
			"notBefore": func(e *settle.Event) { e.NotBefore = at },
		} {
			e := created()
			e.ID = "e"
			set(e)
			want := ""
			if y := at.UTC().Year(); y < 0 || y > 9999 {
				want = name
			}
			if got := refusedField(t, e); got != want {
				t.Errorf("%s %v is refused for %q, want %q", name, at, got, want)
			}
		}
	}
}

func BenchmarkMessageValidate(b *testing.B) {
	e := created()
	e.Payload = []byte(`{"order_id":"42","note":"` + strings.Repeat("x", 230) + `"}`)
	if err := e.Prepare(now); err != nil {
		b.Fatal(err)
	}
	m := settle.Message{ID: e.ID, Event: e}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
