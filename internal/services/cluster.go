package services

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cluster is several nodes that work together, until the test ends.
type Cluster struct {
	// URL is how clients reach them.
	URL string
	// Command is a line of the shell that starts the program by which they are
	// ended, started and paused: scripts/services.
	Command string
}

// UpCluster starts a cluster: kafka3, rabbitmq3 or nats3.
func UpCluster(t testing.TB, name string) Cluster {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	own := []string{"SETTLE_SERVICES_DIR=" + dir, "SETTLE_" + strings.ToUpper(name) + "_PORT=" + freePort(t)}
	s := &Service{t: t, env: append(os.Environ(), own...), name: name, dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("its nodes:\n%s", s.run("status", name+"-1", name+"-2", name+"-3"))
		}
		s.run("down")
	})
	_, at, _ := strings.Cut(strings.TrimSpace(s.run("up", name)), " ")
	return Cluster{URL: at, Command: "env '" + strings.Join(own, "' '") + "' '" + script(t) + "'"}
}
