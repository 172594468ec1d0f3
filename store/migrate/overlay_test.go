package migrate

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAFileOfAnOverlayTakesLinesOfTheOneThatItReplaces(t *testing.T) {
	base := fstest.MapFS{
		"0001_a.sql": {Data: []byte("-- a\nCREATE TABLE t_a (\n  id INT\n);\nCREATE TABLE t_b (\n  id INT\n);\n")},
		"0002_b.sql": {Data: []byte("SELECT exact\n")},
	}
	over := fstest.MapFS{"0001_a.sql": {Data: []byte("-- other\n-- Here is what stands in the file of this name, from \"CREATE TABLE t_b\" to \");\".\n-- end\n")}}
	files := Respelled(Overlay(base, over), "exact", "spelled")
	for name, want := range map[string]string{
		"0001_a.sql": "-- other\nCREATE TABLE t_b (\n  id INT\n);\n-- end\n",
		"0002_b.sql": "SELECT spelled\n",
	} {
		if got, err := fs.ReadFile(files, name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if names, err := fs.Glob(files, "*.sql"); err != nil || len(names) != 2 {
		t.Errorf("the files are %q, %v", names, err)
	}
	for _, ends := range []string{`from "CREATE TABLE t_c" to ");"`, `from "CREATE TABLE t_b" to "CREATE TABLE t_a"`} {
		over["0001_a.sql"] = &fstest.MapFile{Data: []byte("-- Here is what stands in the file of this name, " + ends + ".\n")}
		if got, err := fs.ReadFile(files, "0001_a.sql"); err == nil || !strings.Contains(err.Error(), "0001_a.sql") {
			t.Errorf("%s gives %q, %v; want an error that names the file", ends, got, err)
		}
	}
}
