package springcontract_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/settlemq/settle/server"
)

// relaying is a `settle serve` with a broker inside of it.
type relaying struct {
	cmd            *exec.Cmd
	config         string
	health, broker string
	log            *lockedBuffer
	ended          chan error
}

// serve relays the outbox of d. The directory holds the broker's log: a second
// one with the same directory goes on with it.
func serve(t *testing.T, d database, dir string) *relaying {
	t.Helper()
	r := &relaying{health: freeAddress(t), log: &lockedBuffer{}, ended: make(chan error, 1)}
	at := freeAddress(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SETTLE_TEST_DB", d.adopted())
	r.config = filepath.Join(dir, "settle.yml")
	text := fmt.Sprintf("embedded: {dir: %s, port: %s}\nsources:\n  order: {db: '${SETTLE_TEST_DB}', relay: {lease_ttl: 2s}}\n", filepath.Join(dir, "broker"), port)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.cmd = program(t, "serve", "-c", r.config, "--listen", r.health)
	r.cmd.Stderr = r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill() // does nothing to one that has ended
			<-r.ended
		}
		if t.Failed() {
			t.Logf("settle serve:\n%s", r.log)
		}
	})
	until(t, "settle serve leads", func() bool {
		select {
		case err := <-r.ended:
			t.Fatalf("settle serve ended: %v\n%s", err, r.log)
		default:
		}
		return r.read().State == server.StateLeading
	})
	token, err := os.ReadFile(filepath.Join(dir, "broker", "token"))
	if err != nil {
		t.Fatal(err)
	}
	r.broker = "nats://" + strings.TrimSpace(string(token)) + "@" + at
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// read returns how the source stands; an empty answer before it answers.
func (r *relaying) read() server.SourceStanding {
	res, err := http.Get("http://" + r.health + "/readyz")
	if err != nil {
		return server.SourceStanding{}
	}
	defer func() { _ = res.Body.Close() }()
	var h server.Health
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil {
		return server.SourceStanding{}
	}
	return h.Sources["order"]
}

// stop ends it in order.
func (r *relaying) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("on SIGTERM settle serve ended with %v", err)
	}
}
