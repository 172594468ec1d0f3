package cli_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/server"
)

// serveBroker runs a broker in this process until the test ends.
func serveBroker(t *testing.T) (at string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- dial.ServeBroker(ctx, dial.ServerConfig{Dir: filepath.Join(t.TempDir(), "broker"), Ready: func(u string) { ready <- u }})
	}()
	select {
	case at = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}))
	return at
}

// TestThreeServersOfOneDatabaseOfWhichOneIsKilledAgainAndAgainLoseNothing kills
// one after the other, so that each third kill at least hits a leader. The long
// run is a minute of 1,000 rows a second with a kill each 5 s.
func TestThreeServersOfOneDatabaseOfWhichOneIsKilledAgainAndAgainLoseNothing(t *testing.T) {
	at := postgresSchema(t)
	length, rate, killEvery := 9*time.Second, 400, 3*time.Second
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		length, rate, killEvery = time.Minute, 1000, 5*time.Second
	}
	broker := serveBroker(t)
	config := writeConfig(t, t.TempDir(), "sources:\n  order: {db: '${SETTLE_TEST_DB}', broker: '${SETTLE_TEST_BROKER}', migrate: true, relay: {lease_ttl: 2s}}\n")
	env := []string{"SETTLE_TEST_DB=" + at, "SETTLE_TEST_BROKER=" + broker}
	var servers []*serving
	for range 3 {
		servers = append(servers, serve(t, config, env...))
	}
	for _, s := range servers {
		s.await(t, "ready", func(h server.Health) bool { return h.Ready })
	}
	t.Cleanup(func() {
		if t.Failed() {
			tellStandings(t, servers)
		}
	})
	var names []string
	for i := range 8 {
		names = append(names, "p"+strconv.Itoa(i))
	}
	each := int(length.Seconds()) * rate / len(names)
	began := time.Now()
	produced := startProducers(t, "pgx", at, names, each, rate/len(names))
	kills, leaders := 0, 0
	for next := time.NewTimer(killEvery); time.Since(began) < length; next.Reset(killEvery) {
		<-next.C
		victim := servers[kills%len(servers)]
		if h, _ := victim.read(); h.Sources["order"].State == server.StateLeading {
			leaders++
		}
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-victim.ended
		servers[kills%len(servers)] = serve(t, config, env...)
		kills++
	}
	produced()
	took := time.Since(began)
	awaitEmpty(t, servers)
	t.Logf("%d rows in %s (%.0f/s), all sent %s later; %d kills, %d of them of a leader", each*len(names), took.Round(time.Millisecond),
		float64(each*len(names))/took.Seconds(), (time.Since(began) - took).Round(100*time.Millisecond), kills, leaders)
	if leaders == 0 {
		t.Error("no leader was killed")
	}
	checkLog(t, broker, each*len(names))
	for _, s := range servers {
		s.term(t)
	}
}

func tellStandings(t *testing.T, servers []*serving) {
	for i, s := range servers {
		h, _ := s.read()
		t.Logf("server %d: %+v, %+v\n%s", i, h.Sources["order"].Standing, h.Sources["order"].Backlog, s.log)
	}
}

// awaitEmpty waits until every server has seen that nothing is left to send.
func awaitEmpty(t *testing.T, servers []*serving) {
	t.Helper()
	ended := time.Now()
	for _, s := range servers {
		s.awaitWithin(t, 4*time.Minute, "done", func(h server.Health) bool {
			b := h.Sources["order"].Backlog
			if b == nil || !b.Asked.After(ended) {
				return false
			}
			return h.Ready && b.Pending+b.Parked == 0
		})
	}
}

func TestAnOutageOfPostgreSQLIsToldOnceWithoutThePasswordAndCostsNothing(t *testing.T) {
	at, err := url.Parse(postgresSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	must(t, cli.ExitOK, "migrate", "--db", at.String())
	proxy, err := drill.OpenProxy(drill.ProxyConfig{Target: at.Host})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- proxy.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	through, wrong := *at, *at
	through.Host = proxy.Addr()
	wrong.User = url.UserPassword(at.User.Username(), "c4n4ry")
	broker := serveBroker(t)
	config := writeConfig(t, t.TempDir(), "sources:\n  order: {db: '${DB}', broker: '${BROKER}', relay: {lease_ttl: 2s}}\n  wrong: {db: '${WRONG}', broker: '${BROKER}'}\n")
	s := serve(t, config, "DB="+through.String(), "WRONG="+wrong.String(), "BROKER="+broker)
	h := s.await(t, "leading", func(h server.Health) bool {
		return h.Sources["order"].State == server.StateLeading && h.Sources["wrong"].State == server.StateUnreachable
	})
	if cause := h.Sources["wrong"].Cause; !strings.Contains(cause, "refuses this user or password") || strings.Contains(cause, "\n") {
		t.Errorf("a wrong password is told as %q", cause)
	}
	proxy.Cut(7 * time.Second)
	s.await(t, "unreachable", sourceIs("order", server.StateUnreachable))
	execPostgres(t, at.String(), insertOne)
	s.await(t, "sending again", func(h server.Health) bool {
		o := h.Sources["order"]
		return o.State == server.StateLeading && o.Published == 1 && o.Backlog.Pending == 0
	})
	s.term(t)
	password, _ := at.User.Password()
	for _, secret := range []string{password, "c4n4ry", strings.SplitN(strings.TrimPrefix(broker, "nats://"), "@", 2)[0]} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("%s is shown:\n%s", secret, s.log)
		}
	}
	if n := strings.Count(s.log.String(), "source=order state=unreachable"); n != 1 {
		t.Errorf("one outage is told %d times:\n%s", n, s.log)
	}
	if n := strings.Count(s.log.String(), "source=wrong state=unreachable"); n != 1 {
		t.Errorf("a wrong password is told %d times:\n%s", n, s.log)
	}
}

func TestPeopleActOnTheSourcesOfAFileWhicheverDatabaseTheyAre(t *testing.T) {
	at := postgresSchema(t)
	t.Setenv("SETTLE_TEST_DB", at)
	dir := t.TempDir()
	config := writeConfig(t, dir, "embedded: {dir: "+dir+"/broker}\nsources:\n  order: {db: '${SETTLE_TEST_DB}'}\n  stock: {db: '"+sqliteURL(filepath.Join(dir, "stock.db"))+"'}\n")
	if code, out, _ := run(t, "serve", "-c", config, "--check"); code != cli.ExitUnreachable || !strings.Contains(out, "FAIL order database") || !strings.Contains(out, "settle migrate") {
		t.Errorf("before, --check exits %d and says\n%s", code, out)
	}
	must(t, cli.ExitOK, "migrate", "-c", config)
	execPostgres(t, at, insertOne)
	if out := must(t, cli.ExitOK, "serve", "-c", config, "--check"); !strings.Contains(out, "ok   order database: answers: 1 events pending") {
		t.Errorf("--check says\n%s", out)
	}
	must(t, cli.ExitOK, "pause", "order", "relay", "-c", config, "--reason", "a test")
	must(t, cli.ExitOK, "resume", "order", "relay", "-c", config)
	must(t, cli.ExitOK, "skip", "order", "e-1", "--reason", "a test", "-c", config)
	if out := must(t, cli.ExitOK, "trail", "e-1", "-c", config); !strings.Contains(out, "appended") {
		t.Errorf("the trail is\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "list", "-c", config); !strings.Contains(out, "no dead letters") {
		t.Errorf("the dead letters are\n%s", out)
	}
}
