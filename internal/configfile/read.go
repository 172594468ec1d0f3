// Package configfile reads YAML files strictly into structs, and tells from
// the structs' tags what a file may say. Each field of such a struct has the
// tags yaml (its key), doc (its meaning) and default (what holds without it).
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// Read decodes the file at path into a pointer to a struct. What the struct
// does not name is an error with the line, the wrong word and the right ones.
// No error shows a text of the file: it may be a secret.
func Read(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	err = yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	text := strings.TrimSpace(yaml.FormatError(err, false, false))
	var unknown *yaml.UnknownFieldError
	if errors.As(err, &unknown) {
		return fmt.Errorf("config %s: %s\nthe keys are: %s", path, text, strings.Join(keys(into), ", "))
	}
	// The decoder does not say where a wrong duration stands.
	if w := wrongDuration(b, into); w != nil {
		return fmt.Errorf("config %s: %w", path, w)
	}
	return fmt.Errorf("config %s: %s", path, text)
}

// Has reports whether the file at path has a key at its top. A file that can't
// be read, or is no map, has none.
func Has(path, key string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var top map[string]any
	if err := yaml.Unmarshal(b, &top); err != nil {
		return false
	}
	_, ok := top[key]
	return ok
}

// Wrong says which value of a file can't be, and what it must be.
type Wrong struct {
	// Key as in Field.
	Key string
	// Got is not shown when it is nil: it may be a secret.
	Got any
	// Want follows the words "it must be".
	Want string
}

func (w *Wrong) Error() string {
	if w.Got == nil {
		return fmt.Sprintf("%s must be %s", w.Key, w.Want)
	}
	return fmt.Sprintf("%s is %v; it must be %s", w.Key, w.Got, w.Want)
}

// Under returns w with a key below prefix; nil stays nil.
func (w *Wrong) Under(prefix string) *Wrong {
	if w == nil {
		return nil
	}
	return &Wrong{Key: prefix + "." + w.Key, Got: w.Got, Want: w.Want}
}
