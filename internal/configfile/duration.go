package configfile

import (
	"cmp"
	"reflect"
	"time"

	"github.com/goccy/go-yaml"
)

// wrongDuration returns the first key that is to hold a duration and does not.
func wrongDuration(text []byte, into any) *Wrong {
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil
	}
	return findDuration(reflect.TypeOf(into).Elem(), values)
}

func findDuration(t reflect.Type, values map[string]any) *Wrong {
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		inner, _ := values[name].(map[string]any)
		var w *Wrong
		switch {
		case f.Type == reflect.TypeFor[time.Duration]():
			w = checkDuration(values[name])
		case f.Type == reflect.TypeFor[[]time.Duration]():
			all, _ := values[name].([]any)
			for _, v := range all {
				w = cmp.Or(w, checkDuration(v))
			}
		case f.Type.Kind() == reflect.Struct:
			w = findDuration(f.Type, inner)
		case f.Type.Kind() == reflect.Map && f.Type.Elem().Kind() == reflect.Struct:
			w = findNamed(f.Type.Elem(), inner)
		}
		if w != nil {
			if w.Key == "" {
				return &Wrong{Key: name, Got: w.Got, Want: w.Want}
			}
			return w.Under(name)
		}
	}
	return nil
}

func findNamed(t reflect.Type, named map[string]any) *Wrong {
	for name, v := range named {
		inner, _ := v.(map[string]any)
		if w := findDuration(t, inner); w != nil {
			return w.Under(name)
		}
	}
	return nil
}

func checkDuration(v any) *Wrong {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	if _, err := time.ParseDuration(text); err == nil {
		return nil
	}
	return &Wrong{Got: text, Want: "a duration such as 500ms, 10s or 5m"}
}
