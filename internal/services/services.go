// Package services gives a test servers of its own, which it may stop and
// kill. scripts/services starts them.
package services

import (
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Service is one that runs until the test ends.
type Service struct {
	t    testing.TB
	env  []string
	dir  string
	name string
	at   string
}

// URL returns that of the tests' server, which variable holds. Where it does not,
// the test is skipped, loudly, and fails in CI; name is the service that has one.
func URL(t testing.TB, variable, name string) string {
	t.Helper()
	at := os.Getenv(variable)
	switch {
	case at == "" && os.Getenv("CI") != "":
		t.Fatalf("%s is not set: export it with the URL that `scripts/services up %s` prints", variable, name)
	case at == "":
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not set; `scripts/services up %s` prints its value", variable, name)
	}
	return at
}

// Up starts services, and what each of them needs, which are named before it.
// Those of beside may be started later.
func Up(t testing.TB, names []string, beside ...string) (all []*Service) {
	t.Helper()
	dir := t.TempDir()
	// The server runs as another user where the test is run by root.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "SETTLE_SERVICES_DIR="+dir)
	for _, name := range append(beside, names...) {
		env = append(env, "SETTLE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_PORT="+freePort(t))
	}
	last := &Service{t: t, env: env, name: names[len(names)-1], dir: dir}
	t.Cleanup(func() {
		for _, s := range all {
			if t.Failed() {
				t.Logf("the log of %s ends so:\n%s", s.name, s.run("logs", s.name))
			}
		}
		last.run("down")
	})
	for line := range strings.Lines(last.run("up", last.name)) {
		name, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, &Service{t: t, env: env, dir: dir, name: name, at: at})
	}
	if len(all) != len(names) {
		t.Fatalf("scripts/services up %s prints %d lines, want %d", last.name, len(all), len(names))
	}
	return all
}

func parse(t testing.TB, at string) *url.URL {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("what scripts/services up prints can't be read")
	}
	return u
}

// portsOfOne is how many ports in a row a service takes at most.
const portsOfOne = 15

// Ports below those that systems choose when a program asks for any: on a busy
// machine no row of those is free for long, and a server that is down for a
// moment would find its own port taken.
const firstPort, lastPort = 10_000, 19_000

// freePort returns a port that is free together with those behind it.
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if free(port, portsOfOne) {
			return strconv.Itoa(port)
		}
	}
	t.Fatalf("no %d ports in a row are free from %d to %d", portsOfOne, firstPort, lastPort)
	return ""
}

// free reports whether nobody listens on n ports from first.
func free(first, n int) bool {
	for i := range n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i)))
		if err != nil {
			return false
		}
		defer func() { _ = l.Close() }()
	}
	return true
}

func (s *Service) run(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(script(s.t), args...)
	cmd.Env = s.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// script finds the checkout's script from any package's folder.
func script(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no scripts/services above the test's folder")
	return ""
}

// At is how the server is reached; it may be changed.
func (s *Service) At() *url.URL {
	s.t.Helper()
	return parse(s.t, s.at)
}

// URL is At as it was printed: that of a cluster names several hosts.
func (s *Service) URL() string { return s.at }

// Node is one server of a cluster, from 1 on.
func (s *Service) Node(n int) *Service {
	return &Service{t: s.t, env: s.env, dir: s.dir, name: s.name + "-" + strconv.Itoa(n)}
}

// Part is one server of those that are a service together, by its name among them:
// ns and a of rocketmq.
func (s *Service) Part(name string) *Service {
	return &Service{t: s.t, env: s.env, dir: s.dir, name: s.name + "-" + name}
}

// Host returns host:port.
func (s *Service) Host() string { return s.At().Host }

// Dir is where the service keeps what it has.
func (s *Service) Dir() string { return filepath.Join(s.dir, s.name) }

// Kill ends the server at once, as a power cut does.
func (s *Service) Kill() { s.t.Helper(); s.run("kill", s.name) }

// Start brings it back with its data, and returns when it answers.
func (s *Service) Start() { s.t.Helper(); s.run("start", s.name) }

// Pause stops it from running and answering until Resume.
func (s *Service) Pause() { s.t.Helper(); s.run("pause", s.name) }

// Resume lets it go on.
func (s *Service) Resume() { s.t.Helper(); s.run("resume", s.name) }

// Beside starts another service that works with this server, and returns its
// URL.
func (s *Service) Beside(name string) *url.URL {
	s.t.Helper()
	_, at, _ := strings.Cut(strings.TrimSpace(s.run("up", name)), " ")
	return parse(s.t, at)
}
