package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/server"
)

func TestSQLiteHasOneLaneAndSaysSo(t *testing.T) {
	at := sqliteURL(filepath.Join(t.TempDir(), "order.db"))
	must(t, cli.ExitOK, "migrate", "--db", at)
	for _, args := range [][]string{{"order"}, {"order", "4"}} {
		code, _, said := run(t, append(append([]string{"outbox", "lanes"}, args...), "--db", "order="+at)...)
		if code != cli.ExitFinding || !strings.Contains(said, "one lane reads it; PostgreSQL, MySQL and MariaDB take several") {
			t.Errorf("%v exits %d and says %q", args, code, said)
		}
	}
}

func TestANumberOfLanesThatCanNotBeIsRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"order", "0"}, {"order", "65"}, {"order", "four"}, {"order", "1", "2"}} {
		code, _, said := run(t, append([]string{"outbox", "lanes"}, args...)...)
		if code != cli.ExitUsage {
			t.Errorf("%v exits %d and says %q", args, code, said)
		}
	}
}

// lanesLed are the lanes of a source that a server leads, and all that it knows.
func lanesLed(s *serving) (led, known int) {
	h, _ := s.read()
	for _, l := range h.Sources["order"].Lanes {
		known++
		if l.Leading {
			led++
		}
	}
	return led, known
}

func TestServersTakeAChangedNumberOfLanesWithoutARestartAndShareThem(t *testing.T) {
	at := postgresSchema(t)
	changeLanesUnderServers(t, at, "pgx", at, 200)
}

func TestServersTakeAChangedNumberOfLanesOfMySQLWithoutARestartAndShareThem(t *testing.T) {
	at := mysqlDatabase(t)
	must(t, cli.ExitOK, "migrate", "--db", at)
	changeLanesUnderServers(t, at, "mysql", mysqlDSN(t, at), 100)
}

// changeLanesUnderServers changes the number of lanes of an outbox while two
// servers relay what four producers of a driver insert, so many each.
func changeLanesUnderServers(t *testing.T, at, driver, dsn string, each int) {
	t.Helper()
	broker := serveBroker(t)
	t.Setenv("SETTLE_TEST_DB", at)
	t.Setenv("SETTLE_TEST_BROKER", broker)
	config := writeConfig(t, t.TempDir(), "sources:\n  order: {db: '${SETTLE_TEST_DB}', broker: '${SETTLE_TEST_BROKER}', durability: lax, relay: {lease_ttl: 2s}}\n")
	must(t, cli.ExitOK, "migrate", "-c", config)
	servers := []*serving{serve(t, config), serve(t, config)}
	for _, s := range servers {
		s.await(t, "ready", func(h server.Health) bool { return h.Ready })
	}
	if out := must(t, cli.ExitOK, "outbox", "lanes", "order", "-c", config); !strings.Contains(out, "1 of 1") {
		t.Errorf("one lane is shown as\n%s", out)
	}
	produced := startProducers(t, driver, dsn, []string{"p0", "p1", "p2", "p3"}, each, 100)
	if out := must(t, cli.ExitOK, "outbox", "lanes", "order", "4", "-c", config, "--reason", "a test"); !strings.Contains(out, "will be read by 4 lanes") {
		t.Errorf("the change is told as\n%s", out)
	}
	for _, s := range servers {
		s.await(t, "leading two lanes of four", func(server.Health) bool {
			led, known := lanesLed(s)
			return led == 2 && known == 4
		})
	}
	if out := must(t, cli.ExitOK, "outbox", "lanes", "order", "-c", config); strings.Count(out, "reads") != 4 || !strings.Contains(out, "4 of 4") {
		t.Errorf("four lanes are shown as\n%s", out)
	}
	if out := must(t, cli.ExitOK, "serve", "-c", config, "--check"); !strings.Contains(out, "; 4 lanes") {
		t.Errorf("--check says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "outbox", "lanes", "order", "4", "-c", config); !strings.Contains(out, "nothing was changed") {
		t.Errorf("the same once more is told as\n%s", out)
	}
	must(t, cli.ExitOK, "outbox", "lanes", "order", "2", "-c", config)
	produced()
	awaitEmpty(t, servers)
	checkLog(t, broker, 4*each)
	for _, s := range servers {
		s.await(t, "two lanes", func(server.Health) bool {
			_, known := lanesLed(s)
			return known == 2
		})
		s.term(t)
	}
}
