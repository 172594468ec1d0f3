package configfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/internal/configfile"
)

type part struct {
	Wait time.Duration `yaml:"wait" doc:"a while" default:"1s"`
	Some bool          `yaml:"some" doc:"whether" default:"false"`
}

type file struct {
	Text   string             `yaml:"text" doc:"words" default:""`
	Part   part               `yaml:"part" doc:"a part"`
	Parts  map[string]part    `yaml:"parts" doc:"parts by name"`
	Limits map[string]float64 `yaml:"limits" doc:"by name" default:"{}"`
	Inner  func()             `yaml:"-"`
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatAFileMayNotSayIsNamedWithItsPlace(t *testing.T) {
	for text, says := range map[string]string{
		"txt: s3cret\n":                                 `[1:1] unknown field "txt"`,
		"part: {wait: 1s, sme: true}\n":                 "the keys are: text, part.wait, part.some, parts.NAME.wait, parts.NAME.some, limits",
		"part:\n  wait: soon\n":                         "part.wait is soon; it must be a duration",
		"parts:\n  a: {wait: 1s}\n  b: {wait: later}\n": "parts.b.wait is later",
		"part:\n  some: s3cret\n":                       "[2:9]",
		"text: \"s3cret\n":                              "[1:7]",
	} {
		var f file
		err := configfile.Read(write(t, text), &f)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v; want it to say %q and no text of the file", text, err, says)
		}
	}
	var f file
	if err := configfile.Read("/no/such.yml", &f); err == nil || !strings.Contains(err.Error(), "/no/such.yml") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestAFileIsReadAndAnEmptyOneSaysNothing(t *testing.T) {
	var f file
	if err := configfile.Read(write(t, "parts: {a: {wait: 2s, some: true}}\n"), &f); err != nil || f.Parts["a"] != (part{2 * time.Second, true}) {
		t.Errorf("%+v, %v", f, err)
	}
	if err := configfile.Read(write(t, ""), &f); err != nil {
		t.Error(err)
	}
}

func TestFieldsTellKeysTypesAndDefaults(t *testing.T) {
	text := ""
	for _, f := range configfile.Fields(&file{}) {
		text += fmt.Sprintf("%s|%s|%s\n", f.Key, f.Type, f.Default)
	}
	want := "text|text|\npart|section|\npart.wait|duration|1s\npart.some|yes or no|false\nparts.NAME|section|\nparts.NAME.wait|duration|1s\nparts.NAME.some|yes or no|false\nlimits|map of names to numbers|{}\n"
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

func TestAKeyAtTheTopIsFound(t *testing.T) {
	for text, want := range map[string]bool{"parts: {}\n": true, "part: {parts: 1}\n": false, "- parts\n": false, "\"parts\n": false} {
		if got := configfile.Has(write(t, text), "parts"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
