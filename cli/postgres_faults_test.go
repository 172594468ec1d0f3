package cli_test

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/server"
)

// installed skips a test that needs a program which is not there; the long run
// fails.
func installed(t *testing.T, name, from string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if long() {
		t.Fatalf("%s is not installed: %s", name, from)
	}
	t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not installed: %s", name, from)
}

// TestDeliveryGoesOnBesideWhatOthersDoToTheServer has transactions left open in
// this and another database, one that is prepared, a dump that is read, and
// sessions that are ended in whatever they do.
func TestDeliveryGoesOnBesideWhatOthersDoToTheServer(t *testing.T) {
	t.Parallel()
	installed(t, "pg_dump", "it comes with PostgreSQL's client programs")
	own := pgserver.Own(t)
	own.Exec("CREATE DATABASE other", "CREATE TABLE business (n integer)")
	other, err := url.Parse(own.URL(""))
	if err != nil {
		t.Fatal("the server's URL can't be read")
	}
	other.Path = "/other"
	l := relayOf(t, own.URL("beside"), 1)
	rounds := 3
	if long() {
		rounds = 60
	}
	l.under(4, func() {
		elsewhere := hold(t, other.String(), "CREATE TABLE business (n integer)")
		here := hold(t, own.URL(""), "INSERT INTO business VALUES (1)")
		own.Exec("BEGIN; SET LOCAL search_path = beside; INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload)" +
			" VALUES ('prepared', 'x', 'k', '{\"n\":1}'); PREPARE TRANSACTION 'waits'")
		for range rounds {
			own.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" +
				" AND state <> 'idle in transaction' ORDER BY random() LIMIT 2")
			if out, err := exec.Command("pg_dump", "-f", "/dev/null", own.URL("")).CombinedOutput(); err != nil && !strings.Contains(string(out), "terminating connection") {
				t.Errorf("pg_dump: %v: %s", err, out)
			}
			l.sent(40)
		}
		elsewhere()
		here()
		own.Exec("COMMIT PREPARED 'waits'")
		l.sent(20)
	})
	l.settled().want(t, false, rounds*inFlight)
}

func TestAPoolerWhoseServerIsKilledLeadsToItWhenItIsBack(t *testing.T) {
	t.Parallel()
	installed(t, "pgbouncer", "`scripts/services up pgbouncer` does it for root")
	own := pgserver.Own(t)
	l := relayOf(t, own.Beside("pgbouncer").String(), 2)
	kills := 1
	if long() {
		kills = 5
	}
	l.under(4, func() {
		for range kills {
			l.sent(100)
			own.Kill()
			own.Start()
		}
		l.sent(100)
	})
	l.settled().want(t, false, 2*kills*inFlight)
}

// TestALeaderThatWasStoppedBeyondItsLeaseIsRefusedWhenItGoesOn: another has
// taken over meanwhile.
func TestALeaderThatWasStoppedBeyondItsLeaseIsRefusedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	l := relayOf(t, postgresSchema(t), 2)
	stops := 1
	if long() {
		stops = 10
	}
	both := l.serves
	l.under(4, func() {
		for range stops {
			l.serves = both
			l.sent(100)
			zombie, next := both[0], both[1]
			if sourceIs("order", server.StateLeading)(next.await(t, "ready", func(h server.Health) bool { return h.Ready })) {
				zombie, next = next, zombie
			}
			tell(t, zombie, syscall.SIGSTOP)
			next.await(t, "leading", sourceIs("order", server.StateLeading))
			l.serves = []*serving{next}
			l.sent(100)
			tell(t, zombie, syscall.SIGCONT)
			zombie.await(t, "standing by", sourceIs("order", server.StateStandingBy))
			l.sent(50)
		}
	})
	l.serves = both
	l.settled().want(t, false, stops*inFlight)
}

func tell(t *testing.T, s *serving, of syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(of); err != nil {
		t.Fatal(err)
	}
}

func TestAServerWithoutAFreeConnectionIsNamedAndWaitedFor(t *testing.T) {
	t.Parallel()
	own := pgserver.Own(t)
	own.Exec("ALTER SYSTEM SET max_connections = 20")
	own.Kill()
	own.Start()
	l := relayOf(t, own.URL("full"), 1)
	l.under(2, func() {
		l.sent(50)
		held, release := takeAll(t, own)
		for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			held()
			h, _ := l.serves[0].read()
			if s := h.Sources["order"]; s.State == server.StateUnreachable && strings.Contains(s.Cause, "no connection left") {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("it is %+v", h.Sources["order"])
			}
		}
		release()
		l.sent(50)
	})
	l.settled().want(t, false, inFlight)
}

// takeAll returns what takes each connection that is free and ends all others,
// and what gives them back.
func takeAll(t *testing.T, of *pgserver.Server) (more, release func()) {
	t.Helper()
	var mine []*pgx.Conn
	var pids []uint32
	more = func() {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			conn, err := connect(ctx, of.URL(""), "")
			cancel()
			if err != nil {
				break // full
			}
			mine, pids = append(mine, conn), append(pids, conn.PgConn().PID())
		}
		if len(mine) == 0 {
			t.Fatal("there is no connection to be had")
		}
		if _, err := mine[0].Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND NOT pid = ANY($1)", pids); err != nil {
			t.Fatal(err)
		}
	}
	release = func() {
		for _, conn := range mine {
			_ = conn.Close(t.Context())
		}
	}
	t.Cleanup(release)
	return more, release
}

func TestADumpThatIsRestoredIntoANewClusterGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	installed(t, "pg_dump", "it comes with PostgreSQL's client programs")
	installed(t, "psql", "it comes with PostgreSQL's client programs")
	from, to := pgserver.Own(t), pgserver.Own(t)
	l := relayOf(t, from.URL("moved"), 1)
	l.under(3, func() { l.sent(200) })
	l.settled().want(t, false, inFlight)
	var dump []byte
	l.under(3, func() {
		l.sent(50)
		var err error
		if dump, err = exec.Command("pg_dump", "--schema", "moved", from.URL("")).Output(); err != nil {
			t.Fatalf("pg_dump: %v", err)
		}
		l.sent(100) // of which the copy knows nothing
	})
	before := l.settled()
	for _, s := range l.serves {
		s.term(t)
	}
	restore := exec.Command("psql", "-q", "-v", "ON_ERROR_STOP=1", to.URL(""))
	restore.Stdin = strings.NewReader(string(dump))
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	l.at = to.URL("moved")
	l.start(1)
	l.under(3, func() { l.sent(200) })
	a := l.settled()
	if len(a.forgotten) == 0 || a.rows >= before.rows+200 && before.rows > 0 && len(a.gone) == 0 {
		t.Error("the copy lacks nothing: the test proves nothing")
	}
	// What was sent before is not counted by the new program.
	a.again = max(0, int(l.published())-(a.first-before.first))
	a.want(t, true, inFlight)
}

// TestATableThatWasMadeAnewUnderALeaderStopsItWithTheCommand plants each way in
// which ids begin again. A leader that lives sees those after which lower ids
// are given; the next one sees each.
func TestATableThatWasMadeAnewUnderALeaderStopsItWithTheCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statement string
		lives     bool
	}{
		"truncated": {"TRUNCATE t_outbox_event RESTART IDENTITY", true},
		"reset":     {"DELETE FROM t_outbox_event; ALTER SEQUENCE t_outbox_event_id_seq RESTART", true},
		"restored":  {"UPDATE t_outbox_event SET event_id = 'another-' || id", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := postgresSchema(t)
			l := relayOf(t, at, 1)
			l.under(1, func() { l.sent(30) })
			l.settled()
			before := l.published()
			execPostgres(t, at, c.statement)
			s := l.serves[0]
			if !c.lives {
				s.term(t)
				s, before = serve(t, l.config), 0
			}
			h := s.await(t, "stopped", sourceIs("order", server.StateUnreachable))
			if got := h.Sources["order"]; got.What != "relay" || !strings.Contains(got.Cause, settle.ErrNewGeneration.Error()) || !strings.Contains(got.Cause, "settle outbox ") {
				t.Errorf("it stands so: %+v", got)
			}
			execPostgres(t, at, fmt.Sprintf(strings.ReplaceAll(insertOne, "'e-1'", "'%s'"), settle.NewID()))
			if h, _ := s.read(); h.Sources["order"].Published > before {
				t.Error("and it sends")
			}
		})
	}
}
