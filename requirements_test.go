package settle_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/requirements.md claims, for each requirement, a package, a test that
// proves it and the run that runs it. These tests keep the claims true.

type proof struct {
	row, pkg, test, run string
}

var (
	proofLine = regexp.MustCompile(`^\| (R\d\d) \|`)
	proofTest = regexp.MustCompile("`([^`]+)`")
)

func TestEveryRequirementHasAProofOrSaysThatItIsNotBuilt(t *testing.T) {
	rows, problems := readProofs(t, "docs/requirements.md")
	for _, p := range problems {
		t.Error(p)
	}
	have := testFunctions(t)
	for _, p := range rows {
		if why := p.missing(have); why != "" {
			t.Error(why)
		}
	}
	for _, section := range []struct{ first, last int }{{1, 6}, {10, 19}, {20, 28}, {30, 36}, {40, 45}, {50, 58}, {60, 66}, {70, 73}} {
		for n := section.first; n <= section.last; n++ {
			id := fmt.Sprintf("R%02d", n)
			if !slices.ContainsFunc(rows, func(p proof) bool { return p.row == id }) {
				t.Errorf("docs/requirements.md has no row %s", id)
			}
		}
	}
}

func TestEveryTestNamedAmongTheFieldFailuresExists(t *testing.T) {
	page, err := os.ReadFile("docs/field-failures.md")
	if err != nil {
		t.Fatal(err)
	}
	have := testFunctions(t)
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| kind") {
			continue
		}
		rows++
		names := proofTest.FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, name := range names {
			pkg, test, _ := strings.Cut(name[1], ".")
			if !have[pkg][test] {
				t.Errorf("package %q has no %q: %s", pkg, test, line)
			}
		}
	}
	if rows == 0 {
		t.Error("the page has no rows")
	}
}

func TestARequirementWithAMissingProofIsNoticed(t *testing.T) {
	have := map[string]map[string]bool{"relay": {"TestA": true}}
	for _, p := range []proof{
		{"R01", "relay", "TestGone", "test"},
		{"R01", "nowhere", "TestA", "test"},
		{"R01", "relay", "TestA", "sometimes"},
		{"R01", "relay", "", "test"},
	} {
		if p.missing(have) == "" {
			t.Errorf("%+v passes", p)
		}
	}
}

// TestProofsRan reads what scripts/test recorded: a proof that was skipped, or
// never ran, in the run that claims it counts as missing.
func TestProofsRan(t *testing.T) {
	results := os.Getenv("SETTLE_TEST_RESULTS")
	if results == "" {
		t.Skip("scripts/test names the results of the other tests in SETTLE_TEST_RESULTS, and runs this last")
	}
	run := "test"
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		run = "all"
	}
	passed := passedTests(t, results)
	rows, _ := readProofs(t, "docs/requirements.md")
	checked := 0
	for _, p := range rows {
		if p.test == "" || (p.run == "all" && run != "all") {
			continue
		}
		checked++
		if !passed[p.pkg+"."+p.test] {
			t.Errorf("%s: %s in %s did not run and pass in this run", p.row, p.test, p.pkg)
		}
	}
	if checked == 0 {
		t.Error("no proof was checked")
	}
}

func (p proof) missing(have map[string]map[string]bool) string {
	switch {
	case p.run == "not yet":
		return ""
	case p.test == "":
		return p.row + ": no test is named, and it does not say \"not yet\""
	case p.run != "test" && p.run != "all":
		return p.row + ": the run is " + p.run + ", not test or all"
	case have[p.pkg] == nil:
		return p.row + ": package " + p.pkg + " has no tests"
	case !have[p.pkg][strings.SplitN(p.test, "/", 2)[0]]: // the rest names a part of it
		return p.row + ": " + p.pkg + " has no " + p.test
	}
	return ""
}

// readProofs reads rows "| R01 | requirement | package | `Test` `Test` | run |".
func readProofs(t *testing.T, path string) (rows []proof, problems []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if !proofLine.MatchString(line) {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if len(cells) != 5 {
			problems = append(problems, "not five cells: "+line)
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		names := proofTest.FindAllStringSubmatch(cells[3], -1)
		if len(names) == 0 {
			rows = append(rows, proof{row: cells[0], run: cells[4]})
		}
		for _, name := range names {
			pkg, test, ok := strings.Cut(name[1], ".")
			if !ok {
				problems = append(problems, cells[0]+": a proof is written package.Test, not "+name[1])
			}
			rows = append(rows, proof{row: cells[0], pkg: pkg, test: test, run: cells[4]})
		}
	}
	return rows, problems
}

// testFunctions returns the test functions of each package, by its path below
// the module ("settle" for the root).
func testFunctions(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out, err := exec.Command("grep", "-rhoE", "--include=*_test.go", "--with-filename", `^func (Test|Fuzz|Example)[A-Za-z0-9_]*`, ".").Output()
	if err != nil {
		t.Fatalf("list tests: %v", err)
	}
	have := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		file, fn, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		pkg := strings.TrimPrefix(file[:strings.LastIndex(file, "/")], "./")
		if pkg == "." {
			pkg = "settle"
		}
		if have[pkg] == nil {
			have[pkg] = map[string]bool{}
		}
		have[pkg][fn] = true
	}
	return have
}

// passedTests reads the JSON lines of `go test -json` from a file.
func passedTests(t *testing.T, path string) map[string]bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	passed := map[string]bool{}
	for dec := json.NewDecoder(f); dec.More(); {
		var e struct{ Action, Package, Test string }
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if e.Action == "pass" && e.Test != "" {
			pkg := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
			if pkg == "" {
				pkg = "settle"
			}
			passed[pkg+"."+e.Test] = true
		}
	}
	return passed
}
