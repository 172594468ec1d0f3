package cli_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/server"
)

// TestDeliveryGoesOnBesideWhatOthersDoToAMySQLServer has transactions left open
// in this and another database, one that is prepared, a dump that is read, and
// connections that are killed in whatever they do.
func TestDeliveryGoesOnBesideWhatOthersDoToAMySQLServer(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	installed(t, "mariadb-dump", "it comes with MariaDB's client programs")
	own := myserver.Own(t)
	at := own.Database("beside")
	own.Exec("CREATE DATABASE other", "CREATE TABLE other.business (n INT)", "CREATE TABLE beside.business (n INT)")
	all := own.At()
	all.Path = "/beside"
	l := relayOf(t, at, 1)
	const rounds = 60
	kills := 0
	l.under(4, func() {
		elsewhere := holdMySQL(t, all.String(), "BEGIN", "INSERT INTO other.business VALUES (1)")
		here := holdMySQL(t, all.String(), "BEGIN", "INSERT INTO business VALUES (1)")
		holdMySQL(t, all.String(), "XA START 'waits'", "INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('prepared', 'x', 'k', '{\"n\":1}')",
			"XA END 'waits'", "XA PREPARE 'waits'")()
		for range rounds {
			kills += killSome(t, own)
			// Errors are those of a connection that was killed.
			_ = exec.Command("mariadb-dump", "--no-defaults", "--single-transaction", "--result-file=/dev/null", "--protocol=tcp", "--host="+all.Hostname(), "--port="+all.Port(),
				"--user=app", "--password=app", "beside").Run()
			l.sent(40)
		}
		elsewhere()
		here()
		own.Exec("XA COMMIT 'waits'")
		l.sent(20)
	})
	if kills < rounds {
		t.Errorf("only %d connections were killed", kills)
	}
	l.settled().want(t, false, rounds*inFlight)
}

// killSome kills connections of those who work, whatever they do.
func killSome(t *testing.T, own *myserver.Server) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := own.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	rows, err := conn.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = 'app' ORDER BY RAND() LIMIT 2")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		// One that has ended meanwhile can't be killed.
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL %s %d", []string{"CONNECTION", "QUERY"}[i%2], id)); err == nil {
			n++
		}
	}
	return n
}

func TestAMySQLServerWithoutAFreeConnectionIsNamedAndWaitedFor(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	own := myserver.Own(t)
	at := own.Database("full")
	own.Exec("SET GLOBAL max_connections = 20")
	l := relayOf(t, at, 1)
	l.under(2, func() {
		l.sent(50)
		held, release := takeAllOfMySQL(t, own, at)
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

// takeAllOfMySQL returns what takes each connection that is free and ends all
// others, and what gives them back.
func takeAllOfMySQL(t *testing.T, of *myserver.Server, at string) (more, release func()) {
	t.Helper()
	admin, err := of.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mine []mysqlSession
	more = func() {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			s, err := connectMySQL(ctx, at)
			if err == nil {
				err = s.exec(ctx, "SET @mine = GET_LOCK(CONCAT('mine', CONNECTION_ID()), 0)")
			}
			cancel()
			if err != nil {
				break // full
			}
			mine = append(mine, s)
		}
		rows, err := admin.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE user = 'app' AND IS_USED_LOCK(CONCAT('mine', id)) IS NULL")
		if err != nil {
			t.Fatal(err)
		}
		var others []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			others = append(others, id)
		}
		_ = rows.Close()
		for _, id := range others {
			_, _ = admin.ExecContext(t.Context(), fmt.Sprintf("KILL %d", id))
		}
	}
	release = func() {
		for _, s := range mine {
			s.close(t.Context())
		}
		mine = nil
	}
	t.Cleanup(release)
	return more, release
}

func TestADumpThatIsRestoredIntoANewMySQLServerGoesOnWhereItWas(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	installed(t, "mariadb-dump", "it comes with MariaDB's client programs")
	from, to := myserver.Own(t), myserver.Own(t)
	l := relayOf(t, from.Database("moved"), 1)
	l.under(3, func() { l.sent(200) })
	l.settled().want(t, false, inFlight)
	client := func(of *myserver.Server, program string, args ...string) *exec.Cmd {
		u := of.At()
		password, _ := u.User.Password()
		cmd := exec.Command(program, append([]string{"--no-defaults", "--protocol=tcp", "--host=" + u.Hostname(), "--port=" + u.Port(), "--user=" + u.User.Username(), "--password=" + password}, args...)...)
		return cmd
	}
	var dump []byte
	l.under(3, func() {
		l.sent(50)
		var err error
		if dump, err = client(from, "mariadb-dump", "--single-transaction", "moved").Output(); err != nil {
			t.Fatalf("mariadb-dump: %v", err)
		}
		l.sent(100) // of which the copy knows nothing
	})
	before := l.settled()
	for _, s := range l.serves {
		s.term(t)
	}
	l.at = to.Database("moved")
	restore := client(to, "mariadb", "moved")
	restore.Stdin = strings.NewReader(string(dump))
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("mariadb: %v\n%s", err, out)
	}
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

// TestATableThatWasMadeAnewUnderALeaderOfMySQLStopsItWithTheCommand plants each
// way in which ids begin again.
func TestATableThatWasMadeAnewUnderALeaderOfMySQLStopsItWithTheCommand(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	for name, c := range map[string]struct {
		statement string
		lives     bool
	}{
		"truncated": {"TRUNCATE t_outbox_event", true},
		"reset":     {"DELETE FROM t_outbox_event; ALTER TABLE t_outbox_event AUTO_INCREMENT = 1", true},
		"restored":  {"UPDATE t_outbox_event SET event_id = CONCAT('another-', id)", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := mysqlDatabase(t)
			l := relayOf(t, at, 1)
			l.under(1, func() { l.sent(30) })
			l.settled()
			before := l.published()
			execMySQL(t, at, c.statement)
			s := l.serves[0]
			if !c.lives {
				s.term(t)
				s, before = serve(t, l.config), 0
			}
			h := s.await(t, "stopped", sourceIs("order", server.StateUnreachable))
			if got := h.Sources["order"]; got.What != "relay" || !strings.Contains(got.Cause, settle.ErrNewGeneration.Error()) || !strings.Contains(got.Cause, "settle outbox ") {
				t.Errorf("it stands so: %+v", got)
			}
			execMySQL(t, at, fmt.Sprintf(strings.ReplaceAll(insertOne, "'e-1'", "'%s'"), settle.NewID()))
			if h, _ := s.read(); h.Sources["order"].Published > before {
				t.Error("and it sends")
			}
		})
	}
}
