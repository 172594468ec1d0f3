package configfile

import (
	"reflect"
	"time"
)

// Field is one key of a file, as the struct's tags document it.
type Field struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"`
	Doc     string `json:"doc"`
}

// Section is the type of a field that only holds others.
const Section = "section"

// Fields lists what a file that is read into v may say. What stands for any
// name is written NAME, and a list of sections ends in [].
func Fields(v any) []Field {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return fields(t, "")
}

func fields(t reflect.Type, prefix string) []Field {
	var all []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		key, inner := prefix+name, f.Type
		named := inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct
		if named {
			key, inner = key+".NAME", inner.Elem()
		}
		if inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct {
			key, inner = key+"[]", inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			all = append(all, Field{Key: key, Type: Section, Doc: f.Tag.Get("doc")})
			all = append(all, fields(inner, key+".")...)
			continue
		}
		all = append(all, Field{Key: key, Type: kind(inner), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc")})
	}
	return all
}

func kind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[[]time.Duration]():
		return "list of durations"
	case t == reflect.TypeFor[Texts]():
		return "text, or list of texts"
	case t.Kind() == reflect.Slice:
		return "list of texts"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return "map of names to texts"
	case t.Kind() == reflect.Map:
		return "map of names to numbers"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Int:
		return "integer"
	case t.Kind() == reflect.Bool:
		return "yes or no"
	}
	return "text"
}

func keys(v any) []string {
	var names []string
	for _, f := range Fields(v) {
		if f.Type != Section {
			names = append(names, f.Key)
		}
	}
	return names
}
