package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/server"
)

// TestAFullDiskUnderAnOutboxOfMySQLStopsProducersAndNothingElse: the row and its
// event fail together.
func TestAFullDiskUnderAnOutboxOfMySQLStopsProducersAndNothingElse(t *testing.T) {
	onlyLong(t)
	if os.Getuid() != 0 {
		unproved(t, "only root can mount a small file system")
	}
	own := myserver.Own(t)
	at := own.Database("tight")
	must(t, cli.ExitOK, "migrate", "--db", at)
	small := filepath.Join(own.Dir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small).CombinedOutput(); err != nil {
		unproved(t, "a small file system can't be mounted here: "+string(out))
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	info, err := os.Stat(filepath.Join(own.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(small, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	own.Exec("USE tight", "DROP TABLE t_outbox_event", createdOutbox(t, at)+" DATA DIRECTORY = '"+small+"'")
	l := relayOf(t, at, 1)
	l.under(4, func() {
		for before := -1; before < l.inserted(); time.Sleep(time.Second) {
			before = l.inserted()
		}
		h, _ := l.serves[0].read()
		if got := h.Sources["order"]; got.State != server.StateLeading || got.Published == 0 {
			t.Errorf("with a full disk it stands so: %+v", got)
		}
		if out, err := exec.Command("mount", "-o", "remount,size=64m", small).CombinedOutput(); err != nil {
			t.Fatalf("mount: %v: %s", err, out)
		}
		l.sent(100)
	})
	l.settled().want(t, false, inFlight)
}

// createdOutbox is the statement that makes the outbox as it is.
func createdOutbox(t *testing.T, at string) (statement string) {
	t.Helper()
	s, err := connectMySQL(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(context.Background())
	var name string
	if err := s.conn.QueryRowContext(t.Context(), "SHOW CREATE TABLE t_outbox_event").Scan(&name, &statement); err != nil {
		t.Fatal(err)
	}
	return statement
}
