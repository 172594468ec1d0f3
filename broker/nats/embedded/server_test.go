package embedded_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/broker/nats/embedded"
)

func start(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTheServerListensOnLoopbackAndAsksForItsToken(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir()})
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	host, _, _ := net.SplitHostPort(nc.ConnectedAddr())
	if host != "127.0.0.1" {
		t.Errorf("listens on %s", host)
	}
	bare := strings.Replace(s.URL(), s.Token()+"@", "", 1)
	if nc, err := nats.Connect(bare); err == nil {
		nc.Close()
		t.Error("a client without the token is let in")
	}
}

func TestADirectoryInUseIsRefusedAndFreeAgainAfterClose(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Config{Dir: dir})
	if _, err := embedded.Start(embedded.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "used by another broker process") {
		t.Errorf("the second server got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, embedded.Config{Dir: dir})
}

func TestAPortInUseIsAClearError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = embedded.Start(embedded.Config{Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestAFileWhereTheDirectoryShouldBeIsAClearError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(embedded.Config{Dir: path}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("got %v", err)
	}
}

func TestWhatWasStoredIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Config{Dir: dir, InProcessOnly: true})
	if s.URL() != "" {
		t.Errorf("an in-process server has the URL %s", s.URL())
	}
	js, nc := connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("x")); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	_ = s.Close()
	js, nc = connect(t, start(t, embedded.Config{Dir: dir, InProcessOnly: true}))
	defer nc.Close()
	stream, err := js.Stream(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages after the restart", n)
	}
}

func connect(t *testing.T, s *embedded.Server) (jetstream.JetStream, *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s.InProcess()), nats.Token(s.Token()))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, nc
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir()})
	url := s.URL()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if nc, err := nats.Connect(url); err == nil {
		nc.Close()
		t.Error("the server still answers")
	}
}
