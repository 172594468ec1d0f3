package sim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPlantedBugIsFound builds the simulation once for each file of
// planted/ with that bug in it, by an overlay: the product has no switch. The
// run must fail within the usual number of seeds, by an invariant that the file
// names. A file whose anchor is gone from the code fails too. The plain run
// plants each third of them.
func TestEveryPlantedBugIsFound(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("builds a binary for each bug")
	}
	files, err := filepath.Glob("planted/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d planted bugs: %v", len(files), err)
	}
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(strings.ReplaceAll(name, "_", " "), func(t *testing.T) {
			if i%3 != 0 && os.Getenv("SETTLE_TEST_ALL") == "" {
				t.Skip("two of three bugs are planted with SETTLE_TEST_ALL=1 only: a build and a run for each")
			}
			t.Parallel()
			bug := readBug(t, file)
			binary := bug.build(t)
			out, err := exec.Command(binary, "-test.run", "^"+bug.story.test+"$", "-seeds", fmt.Sprint(bug.story.usual), "-until", strings.Join(bug.invariants, ";"), "-lines", "0").CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			found := violated(string(out))
			if len(found) == 0 {
				t.Fatalf("not found in %d seeds:\n%.2000s", bug.story.usual, out)
			}
			// One bug may break several promises; the one it is about must be
			// among them.
			if !slices.ContainsFunc(found, func(name string) bool { return slices.Contains(bug.invariants, name) }) {
				t.Errorf("found by %q, not by %q:\n%.1500s", found, bug.invariants, out)
			}
		})
	}
}

var violationLine = regexp.MustCompile(`(?m)seed \d+: ([^,]+), after `)

// violated returns the invariants that a run's output names.
func violated(out string) (names []string) {
	for _, m := range violationLine.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return names
}

// bug is a planted bug: pieces of one file and what takes their place.
type bug struct {
	story      simulation
	file       string
	invariants []string
	old, new   []string
}

// readBug reads a file of planted/: a sentence, a "test:" line where another story
// than the plain one finds it, "file:" and "invariant:" lines (any of several may find
// it), then pairs of "--- old" and "--- new".
func readBug(t *testing.T, path string) bug {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := bug{story: plainRuns}
	head, rest, _ := strings.Cut(string(text), "--- old\n")
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, "file: "); ok {
			b.file = strings.TrimSpace(value)
		}
		if value, ok := strings.CutPrefix(line, "test: "); ok {
			for _, story := range []simulation{shopRuns, routedRuns, halfRuns, listRuns} {
				if strings.TrimSpace(value) == story.test {
					b.story = story
				}
			}
		}
		if value, ok := strings.CutPrefix(line, "invariant: "); ok {
			b.invariants = append(b.invariants, strings.TrimSpace(value))
		}
	}
	for _, pair := range strings.Split(rest, "--- old\n") {
		old, now, ok := strings.Cut(pair, "--- new\n")
		if !ok || old == "" {
			t.Fatalf("%s: a pair has no --- new", path)
		}
		b.old, b.new = append(b.old, strings.TrimSuffix(old, "\n")), append(b.new, strings.TrimSuffix(now, "\n"))
	}
	if b.file == "" || len(b.invariants) == 0 {
		t.Fatalf("%s: no file: or invariant: line", path)
	}
	return b
}

// build compiles this package's tests with the bug in its file.
func (b bug) build(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", b.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	code := string(text)
	for i, old := range b.old {
		if n := strings.Count(code, old); n != 1 {
			t.Fatalf("%s has the anchor %d times, want once:\n%s", b.file, n, old)
		}
		code = strings.Replace(code, old, b.new[i], 1)
	}
	dir := t.TempDir()
	planted := filepath.Join(dir, "planted.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: planted}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(planted, []byte(code), 0o600), os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "sim.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with the bug: %v\n%s", err, out)
	}
	return binary
}

func TestAPlantedBugWhoseAnchorIsGoneIsNoticed(t *testing.T) {
	code, err := os.ReadFile("../../relay/flush.go")
	if err != nil {
		t.Fatal(err)
	}
	b := readBug(t, "planted/marked_by_range.txt")
	if strings.Count(string(code), b.old[0]) != 1 {
		t.Error("the anchor of a planted bug is not in its file")
	}
	if strings.Contains(string(code), b.new[0]) {
		t.Error("the bug is in the product")
	}
}
