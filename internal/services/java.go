package services

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Java is a program that runs until the test ends.
type Java struct {
	t     testing.TB
	lines chan string
}

// StartJava compiles dir/NAME.java against the jars that dir/pom.xml names, which
// Maven fetches once, and runs it. It ends when its input does.
func StartJava(t testing.TB, dir, name string, args ...string) *Java {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		t.Fatal("a JDK of 17 or newer is needed; `scripts/test all` installs one")
	}
	jars, classes := jarsOf(t, filepath.Join(dir, "pom.xml")), t.TempDir()
	if out, err := exec.Command("javac", "-encoding", "UTF-8", "-parameters", "-cp", jars+"/*", "-d", classes, filepath.Join(dir, name+".java")).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	cmd := exec.Command("java", append([]string{"-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes + ":" + jars + "/*", name}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j := &Java{t: t, lines: make(chan string, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		j.read(out)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-read
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("java %s ends: %v\n%s", name, err, said.String())
		}
	})
	return j
}

func (j *Java) read(from io.Reader) {
	defer close(j.lines)
	for scanner := bufio.NewScanner(from); scanner.Scan(); {
		select {
		case j.lines <- scanner.Text():
		default: // nobody asks for so many
		}
	}
}

// Line returns what it prints next.
func (j *Java) Line(patience time.Duration) string {
	j.t.Helper()
	select {
	case line, ok := <-j.lines:
		if ok {
			return line
		}
		j.t.Fatal("the Java program has ended")
	case <-time.After(patience):
		j.t.Fatal("the Java program prints nothing")
	}
	return ""
}

// jarsOf returns the folder with the jars of a pom.
func jarsOf(t testing.TB, pom string) string {
	t.Helper()
	cache := os.Getenv("SETTLE_CACHE_DIR")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "settle")
	}
	names, err := os.ReadFile(pom)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(names)
	dir := filepath.Join(cache, "jars-"+hex.EncodeToString(sum[:])[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Fatalf("Maven is needed to fetch the jars of %s; `scripts/test all` installs it", pom)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	// Renamed when it is whole, so that what was interrupted is fetched again.
	part, err := os.MkdirTemp(cache, "jars-*.part")
	if err != nil {
		t.Fatal(err)
	}
	fetch := exec.Command("mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+part)
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("Maven could not fetch the jars of %s: %v\n%s", pom, err, out)
	}
	if err := os.Rename(part, dir); err != nil && !os.IsExist(err) {
		if _, there := os.Stat(dir); there != nil { // another test was quicker
			t.Fatal(err)
		}
	}
	return dir
}
