package postgres_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// killable is a server of its own that the test may kill.
func killable(t *testing.T) *pgserver.Server {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("kills a server of its own: a long test, run by scripts/test all")
	}
	return pgserver.Own(t)
}

func TestNothingIsPublishedThatAPowerCutTakesBack(t *testing.T) {
	srv := killable(t)
	concurrent.NothingTakenBack(t, func(t testing.TB, _ bool) concurrent.Mortal[pgx.Tx] {
		s := postgres.OpenForTest(t, srv.URL(strings.ReplaceAll("cut_"+settle.NewID(), "-", "")), postgres.Config{})
		return concurrent.Mortal[pgx.Tx]{Outbox: written(s), Kill: srv.Kill, Start: srv.Start}
	})
}

func TestWithASynchronousStandbyNothingThatIsReadCountsAsDurable(t *testing.T) {
	srv := killable(t)
	s := postgres.OpenForTest(t, srv.URL("standby"), postgres.Config{})
	l := s.Log()
	wants := func(want bool) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			p, err := l.Poll(t.Context(), relay.PollQuery{MaxRows: 10, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if p.NotDurable == want {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("a page is not durable is %v, want %v", p.NotDurable, want)
			}
		}
	}
	wants(false)
	srv.Exec("ALTER SYSTEM SET synchronous_standby_names = 'far_away'", "SELECT pg_reload_conf()")
	wants(true)
}
