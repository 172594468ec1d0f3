package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Commands in the documents stand in ```console fences, each line after "$ ".
// What stands below a command is its output; ids, times and figures differ.
// The fences of a document are run in order, in one folder, with settle on
// the PATH.

// A document that begins with git clone is followed in a copy of the checkout.
// One that names a database below gets an empty one on the tests' server; on
// MySQL one that is not there yet.
const (
	shownDatabase = "postgres://orders:secret@127.0.0.1:5432/orders"
	shownMySQL    = "mysql://orders:secret@127.0.0.1:3306/orders"
	shownClient   = "--host=127.0.0.1 --port=3306 --user=orders --password=secret orders"
)

// skipped reports whether a command can't be run: it runs the tests, or
// fetches what is here.
func skipped(command string) bool {
	return strings.HasPrefix(command, "./scripts/test") || cloning(command)
}

func cloning(command string) bool { return strings.HasPrefix(command, "git clone ") }

type shown struct {
	command string
	output  []string
	line    int
}

func TestEveryCommandShownInADocumentDoesWhatTheDocumentShows(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the documents show curl, and it is not installed")
		}
		t.Skip("SKIPPED: the documents show curl, and it is not installed")
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "settle"), "../cmd/settle").CombinedOutput(); err != nil {
		t.Fatalf("build settle: %v\n%s", err, out)
	}
	docs, _ := filepath.Glob("*.md")
	commands := 0
	for _, path := range append(docs, "../README.md") {
		blocks := readShown(t, path)
		commands += len(blocks)
		if len(blocks) > 0 {
			t.Run(filepath.Base(path), func(t *testing.T) { follow(t, bin, blocks) })
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found in the documents", commands)
	}
}

func TestTheChineseReadmeShowsTheSameCommandsAndOutput(t *testing.T) {
	english, chinese := readShown(t, "../README.md"), readShown(t, "../README.zh-CN.md")
	if len(english) == 0 || len(english) != len(chinese) {
		t.Fatalf("%d commands in English, %d in Chinese", len(english), len(chinese))
	}
	for i, c := range chinese {
		if e := english[i]; c.command != e.command || !slices.Equal(c.output, e.output) {
			t.Errorf("line %d: $ %s\n%q\nstands in English, line %d, as: $ %s\n%q", c.line, c.command, c.output, e.line, e.command, e.output)
		}
	}
}

// follow runs commands in one shell, as a reader would.
func follow(t *testing.T, bin string, blocks []shown) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	databases := databasesFor(t, blocks)
	var script strings.Builder
	script.WriteString("set -u\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	for i, b := range blocks {
		if skipped(b.command) {
			continue
		}
		command := strings.ReplaceAll(b.command, "go run ./cmd/settle", "settle")
		command = strings.ReplaceAll(command, "127.0.0.1:8080", addr)
		command = databases.Replace(command)
		command = strings.ReplaceAll(command, "port: 4222", "port: "+strconv.Itoa(freePort(t)))
		_, _ = fmt.Fprintf(&script, "echo '<<%d>>'\n%s\necho \"<<$?>>\"\n", i, command)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "bash", "-c", script.String())
	sh.Dir = t.TempDir()
	if cloning(blocks[0].command) {
		cloneCheckout(t, sh.Dir)
	}
	sh.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	sh.WaitDelay = 5 * time.Second
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, b := range blocks {
		if skipped(b.command) {
			continue
		}
		_, rest, ok := strings.Cut(string(out), fmt.Sprintf("<<%d>>\n", i))
		got, rest, ended := strings.Cut(rest, "<<")
		code, _, _ := strings.Cut(rest, ">>")
		if !ok || !ended || code != "0" {
			t.Errorf("line %d: $ %s\nended with %s:\n%s", b.line, b.command, code, got)
			continue
		}
		for _, want := range b.output {
			if !strings.Contains(plain(got), plain(want)) {
				t.Errorf("line %d: $ %s\nshows  %s\nprints %s", b.line, b.command, plain(want), plain(got))
			}
		}
	}
}

// databasesFor makes the databases that a document works on, and puts them in
// the place of those that it shows.
func databasesFor(t *testing.T, blocks []shown) *strings.Replacer {
	t.Helper()
	names := func(what string) bool {
		return slices.ContainsFunc(blocks, func(b shown) bool { return strings.Contains(b.command, what) })
	}
	var pairs []string
	if names(shownDatabase) {
		needs(t, "psql")
		pairs = append(pairs, shownDatabase, postgresDatabase(t))
	}
	if names(shownMySQL) {
		at := mysqlDatabase(t)
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		pairs = append(pairs, shownMySQL, at, shownClient, fmt.Sprintf("--host=%s --port=%s --user=%s --password=%s %s",
			u.Hostname(), u.Port(), u.User.Username(), password, strings.Trim(u.Path, "/")))
	}
	if names(shownClient) {
		needs(t, "mariadb")
	}
	return strings.NewReplacer(pairs...)
}

// needs skips a document that shows a program which is not here.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
		t.Skipf("SKIPPED: the document shows %s, and it is not installed", program)
	}
}

// cloneCheckout copies what git has of the checkout, or would take.
func cloneCheckout(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("bash", "-c", `cd .. && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$0"`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("copy checkout: %v\n%s", err, out)
	}
}

var varying = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\bo-[a-z0-9]{16}\b`), "ORDER"},
	{regexp.MustCompile(`by [a-z]+,`), "by WHO,"},
	{regexp.MustCompile(`\d+(\.\d+)?`), "N"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// plain replaces what differs from run to run.
func plain(s string) string {
	for _, v := range varying {
		s = v.of.ReplaceAllString(s, v.by)
	}
	return strings.TrimSpace(s)
}

func readShown(t *testing.T, path string) (blocks []shown) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside, until := false, ""
	for s, line := bufio.NewScanner(f), 1; s.Scan(); line++ {
		text := s.Text()
		if until != "" { // a command with a here-document goes on to its end
			blocks[len(blocks)-1].command += "\n" + text
			if text == until {
				until = ""
			}
			continue
		}
		switch command, isCommand := strings.CutPrefix(text, "$ "); {
		case strings.HasPrefix(text, "```"):
			inside = text == "```console"
		case !inside || text == "" || text == "…":
		case isCommand:
			command, _, _ = strings.Cut(command, "   #")
			blocks = append(blocks, shown{command: strings.TrimSpace(command), line: line})
			if _, word, ok := strings.Cut(command, "<<'"); ok {
				until, _, _ = strings.Cut(word, "'")
			}
		case len(blocks) > 0:
			last := &blocks[len(blocks)-1]
			last.output = append(last.output, text)
		}
	}
	return blocks
}
