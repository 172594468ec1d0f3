package embedded_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/settlemq/settle/broker/nats/embedded"
)

// noRoom makes every file of this process end at limit bytes, until room is
// called.
func noRoom(t *testing.T, limit uint64) (room func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: limit, Max: before.Max})
	room = func() { set(before) }
	t.Cleanup(room)
	return room
}

func TestAServerWhoseDiskWasFullStoresAgainOnceThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Config{Dir: dir})
	url := s.URL()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	js, nc := connect(t, s)
	defer nc.Close()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	room := noRoom(t, 200<<10)
	body := make([]byte, 32<<10)
	acknowledged := uint64(0)
	for publish(ctx, js, body) == nil {
		if acknowledged++; acknowledged > 100 {
			t.Fatal("the disk is never full")
		}
	}
	room()
	for end := time.Now().Add(20 * time.Second); publish(ctx, js, []byte("again")) != nil; {
		if time.Now().After(end) {
			t.Fatal("nothing is stored although there is room")
		}
	}
	after, err := js.Stream(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	if n := after.CachedInfo().State.Msgs; n <= acknowledged || acknowledged == 0 || s.URL() != url {
		t.Errorf("%d messages at %s, there were %d at %s", n, s.URL(), acknowledged, url)
	}
	if _, err := os.Stat(filepath.Join(dir, "settle.probe")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe is left: %v", err)
	}
}

func publish(ctx context.Context, js jetstream.JetStream, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := js.Publish(ctx, "s", body)
	return err
}
