package cli_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/server"
)

// TestAServerThatIsKilledInMidWriteTakesNothingBackThatWasSent has writers whose
// commits do not wait for the disk.
func TestAServerThatIsKilledInMidWriteTakesNothingBackThatWasSent(t *testing.T) {
	t.Parallel()
	own := pgserver.Own(t)
	l := relayOf(t, own.URL("cut"), 1)
	l.session = "SET synchronous_commit = off"
	kills := 1
	if long() {
		kills = 8
	}
	l.under(4, func() {
		for range kills {
			l.sent(150)
			own.Kill()
			own.Start()
			l.sent(50)
			killSession(t, own.URL(""))
			l.sent(50)
		}
	})
	a := l.settled()
	if len(a.gone) > 0 {
		t.Errorf("sent and taken back: %q", a.gone)
	}
	a.want(t, true, 2*kills*inFlight)
}

// killSession kills the process of one session: the server ends all others and
// recovers, as after a power cut.
func killSession(t *testing.T, at string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var pid int
	if err := conn.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestASynchronousStandbyTakesOverWithAllThatWasAnswered(t *testing.T) {
	t.Parallel()
	primary, standby := pgserver.OwnPair(t)
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	primary.Await("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')")
	l := relayOf(t, primary.Either(standby, "pair"), 1)
	l.under(4, func() {
		l.sent(150)
		standby.Kill()
		// Whoever commits waits now.
		primary.Await("SELECT count(*) > 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		standby.Start()
		l.sent(150)
		primary.Kill()
		standby.Exec("SELECT pg_promote()")
		l.sent(150)
	})
	l.settled().want(t, false, 2*inFlight)
}

// TestAnAsynchronousStandbyThatLaggedLosesOnlyWhatTheDatabaseLost: ids are given
// again, and the relay's position goes back with the rows.
func TestAnAsynchronousStandbyThatLaggedLosesOnlyWhatTheDatabaseLost(t *testing.T) {
	t.Parallel()
	primary, standby := pgserver.OwnPair(t)
	l := relayOf(t, primary.Either(standby, "pair"), 1)
	l.under(4, func() {
		l.sent(150)
		standby.Exec("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
		standby.Await("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
		l.sent(300)
		primary.Kill()
		standby.Exec("SELECT pg_promote()")
		l.sent(300)
	})
	a := l.settled()
	if len(a.forgotten) == 0 || len(a.gone) == 0 {
		t.Errorf("the standby has lost nothing (%d answered, %d sent): the test proves nothing", len(a.forgotten), len(a.gone))
	}
	a.want(t, true, 2*inFlight)
	if h, _ := l.serves[0].read(); h.Sources["order"].State != server.StateLeading {
		t.Errorf("it stands so: %+v", h.Sources["order"].Standing)
	}
	told := strings.Count(l.serves[0].log.String(), "leading the outbox")
	if told < 2 {
		t.Errorf("that it begins from another position is told %d times:\n%s", told, l.serves[0].log)
	}
}

func TestAServerThatHangsOrLocksTheOutboxHoldsDeliveryUpAndNoLonger(t *testing.T) {
	t.Parallel()
	own := pgserver.Own(t)
	l := relayOf(t, own.URL("hang"), 1)
	hang := time.Second
	if long() {
		hang = 20 * time.Second
	}
	l.under(4, func() {
		l.sent(100)
		own.Pause()
		time.Sleep(hang) // as long as it is stopped nothing tells of it
		own.Resume()
		l.sent(100)
		unlock := hold(t, own.URL("hang"), "LOCK TABLE t_outbox_event IN ACCESS EXCLUSIVE MODE")
		time.Sleep(hang)
		unlock()
		l.sent(100)
	})
	l.settled().want(t, false, 2*inFlight)
}
