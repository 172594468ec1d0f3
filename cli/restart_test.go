package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// lives is an outbox whose table gets another life.
type lives struct {
	*testing.T
	url string
	db  *dial.Database
}

// sent relays until these messages have reached the broker, in this order.
func (l lives) sent(ids ...string) {
	l.Helper()
	broker, sent, ended := make(published, 100), make(chan int, 100), make(chan error)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- relay.New(l.db.Log, broker, relay.Config{OnSent: func(s []relay.Sent) { sent <- len(s) }}).Run(ctx)
	}()
	broker.want(l.T, ids...)
	for n := 0; n < len(ids); {
		n += <-sent
	}
	stop()
	if err := <-ended; err != nil {
		l.Error(err)
	}
	if len(broker) > 0 {
		l.Errorf("the broker got %s besides", <-broker)
	}
}

// stops relays and wants it to stop without having sent anything.
func (l lives) stops() {
	l.Helper()
	broker := make(published, 100)
	err := relay.New(l.db.Log, broker, relay.Config{}).Run(l.Context())
	if !errors.Is(err, settle.ErrNewGeneration) || !strings.Contains(err.Error(), "settle outbox restart") {
		l.Errorf("the relay ends with %v; want it to say that a person decides, and how", err)
	}
	if len(broker) > 0 {
		l.Errorf("the broker got %s", <-broker)
	}
}

func (l lives) exec(statements string) {
	l.Helper()
	for _, statement := range strings.Split(statements, ";") {
		tx, err := l.db.Begin(l.Context())
		if err != nil {
			l.Fatal(err)
		}
		if _, err := tx.ExecContext(l.Context(), statement); err != nil {
			l.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			l.Fatal(err)
		}
	}
}

func (l lives) restart(want int, args ...string) string {
	l.Helper()
	return must(l.T, want, append([]string{"outbox", "restart", "order", "--db", "order=" + l.url}, args...)...)
}

// onEach runs f on an empty outbox of each database.
func onEach(t *testing.T, f func(l lives, kind string)) {
	for kind, at := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "order.db") },
		"PostgreSQL": postgresSchema,
		"MySQL":      emptyMySQL,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := lives{T: t, url: at(t)}
			var err error
			if l.db, err = dial.Store(t.Context(), l.url, dial.StoreConfig{Service: "order"}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := l.db.Close(); err != nil {
					t.Error(err)
				}
			})
			f(l, kind)
		})
	}
}

func TestAfterATableWasMadeAnewNothingIsSentUntilAPersonChooses(t *testing.T) {
	emptied := map[string]string{
		"SQLite":     "DELETE FROM t_outbox_event; DELETE FROM sqlite_sequence WHERE name = 't_outbox_event'",
		"PostgreSQL": "TRUNCATE t_outbox_event RESTART IDENTITY",
		"MySQL":      "TRUNCATE t_outbox_event",
	}
	onEach(t, func(l lives, kind string) {
		appendTo(l.T, l.db, "a1", "a2", "a3")
		l.sent("a1", "a2", "a3")
		l.exec(emptied[kind])
		appendTo(l.T, l.db, "b1", "b2", "b3", "b4")
		l.stops()
		out := l.restart(cli.ExitFinding)
		for _, says := range []string{"of another life", "id 3, event a3; there is event b3 at it now, 3 rows at or below it and 1 row above", "4 rows, ids 1 to 4; the highest id ever given is 4", "--from-end", "nothing was changed"} {
			if !strings.Contains(out, says) {
				t.Errorf("restart without a choice does not say %q:\n%s", says, out)
			}
		}
		l.stops()
		l.restart(cli.ExitUsage, "--from", "2", "--yes")
		l.restart(cli.ExitUsage, "--from", "2", "--from-end")
		l.restart(cli.ExitFinding, "--from", "9", "--yes", "--reason", "x")
		out = l.restart(cli.ExitOK, "--from", "2", "--yes", "--reason", "the table was emptied", "--by", "ana")
		if !strings.Contains(out, "order goes on from id 2") || !strings.Contains(out, "3 rows from there on are sent, 1 row before count as sent") {
			t.Errorf("restart prints\n%s", out)
		}
		l.sent("b2", "b3", "b4")
		appendTo(l.T, l.db, "b5")
		l.sent("b5")
		if out = must(l.T, cli.ExitFinding, "outbox", "adopt", "order", "--restart", "--db", "order="+l.url); !strings.Contains(out, "a restart is not needed") {
			t.Errorf("adopt --restart of a sound outbox prints\n%s", out)
		}
		if out = must(l.T, cli.ExitUsage, "outbox", "adopt", "order", "--db", "order="+l.url); !strings.Contains(out, "settle migrate --adopt") {
			t.Errorf("adopt without --restart prints\n%s", out)
		}
	})
}

func TestAfterAnOlderBackupOfTheTableTheRestIsSentFromWhereAPersonSays(t *testing.T) {
	// The rows of the backup are there, and the ids after them are given again.
	restored := map[string]string{
		"SQLite":     "DELETE FROM t_outbox_event WHERE id > 2; UPDATE sqlite_sequence SET seq = 2 WHERE name = 't_outbox_event'",
		"PostgreSQL": "DELETE FROM t_outbox_event WHERE id > 2; ALTER TABLE t_outbox_event ALTER COLUMN id RESTART WITH 3",
		"MySQL":      "DELETE FROM t_outbox_event WHERE id > 2; ALTER TABLE t_outbox_event AUTO_INCREMENT = 3",
	}
	onEach(t, func(l lives, kind string) {
		appendTo(l.T, l.db, "e1", "e2", "e3", "e4")
		l.sent("e1", "e2", "e3", "e4")
		l.exec(restored[kind])
		l.stops()
		appendTo(l.T, l.db, "n3")
		l.stops()
		var s govern.Standing
		_, out, _ := run(t, "outbox", "restart", "order", "--json", "--db", "order="+l.url)
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.OtherLife == "" || s.Rows != 3 || s.Readers[0].Cursor != 4 || s.Readers[0].Above != 0 {
			t.Errorf("restart --json prints %v\n%s", err, out)
		}
		var did govern.Restart
		out = l.restart(cli.ExitOK, "--from", "3", "--yes", "--reason", "restored", "--json")
		if err := json.Unmarshal([]byte(out), &did); err != nil || did.From != 3 || did.Sent != 1 || did.Passed != 2 {
			t.Errorf("restart --json prints %v\n%s", err, out)
		}
		l.sent("n3")
		if out = must(l.T, cli.ExitOK, "trail", "n3", "--db", "order="+l.url); strings.Count(out, "published") != 1 {
			t.Errorf("the trail of an event that has the id of another one's is\n%s", out)
		}
		if out = must(l.T, cli.ExitOK, "trail", "e1", "--db", "order="+l.url); strings.Count(out, "appended") != 1 {
			t.Errorf("the trail of a restored event is\n%s", out)
		}
	})
}

func TestAfterAResetSequenceTheRelayStopsAndGoesOnFromTheEndOrTheStart(t *testing.T) {
	// Retention has deleted all rows, and a script has set the sequence back.
	reset := map[string]string{
		"SQLite":     "DELETE FROM t_outbox_event; UPDATE sqlite_sequence SET seq = 0 WHERE name = 't_outbox_event'",
		"PostgreSQL": "DELETE FROM t_outbox_event; ALTER TABLE t_outbox_event ALTER COLUMN id RESTART WITH 1",
		"MySQL":      "DELETE FROM t_outbox_event; ALTER TABLE t_outbox_event AUTO_INCREMENT = 1",
	}
	onEach(t, func(l lives, kind string) {
		appendTo(l.T, l.db, "a1", "a2")
		l.sent("a1", "a2")
		l.exec(reset[kind])
		appendTo(l.T, l.db, "b1")
		l.stops()
		l.restart(cli.ExitOK, "--from-start", "--yes", "--reason", "the sequence was reset")
		l.sent("b1")
		l.exec(reset[kind])
		l.stops()
		l.restart(cli.ExitOK, "--from-end", "--yes", "--reason", "and again")
		appendTo(l.T, l.db, "c1")
		l.sent("c1")
	})
}

func TestARestartIsRefusedWhileARelayLeads(t *testing.T) {
	onEach(t, func(l lives, _ string) {
		lease, err := l.db.Log.Lead(t.Context(), "a relay", 0, time.Minute)
		if err != nil || !lease.Held {
			l.Fatal(lease, err)
		}
		if out := l.restart(cli.ExitFinding, "--from-start", "--yes", "--reason", "x"); !strings.Contains(out, "a relay leads this outbox: a relay, until") {
			l.Errorf("restart prints\n%s", out)
		}
		if out := l.restart(cli.ExitFinding); !strings.Contains(out, "a relay leads until") {
			l.Errorf("restart prints\n%s", out)
		}
	})
}

func TestADatabaseRestoredFromOneMomentGoesOnByItselfAndSendsAgainWhatItHasNotSeenSent(t *testing.T) {
	dir := t.TempDir()
	l := lives{T: t, url: "sqlite://" + filepath.Join(dir, "order.db")}
	open := func() {
		var err error
		if l.db, err = dial.Store(t.Context(), l.url, dial.StoreConfig{Service: "order"}); err != nil {
			t.Fatal(err)
		}
	}
	closed := func() {
		if err := l.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open()
	appendTo(t, l.db, "e1", "e2")
	l.sent("e1", "e2")
	appendTo(t, l.db, "e3")
	closed()
	backup, err := os.ReadFile(filepath.Join(dir, "order.db"))
	if err != nil {
		t.Fatal(err)
	}
	open()
	appendTo(t, l.db, "e4")
	l.sent("e3", "e4")
	closed()
	if err := os.WriteFile(filepath.Join(dir, "order.db"), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	open()
	defer closed()
	appendTo(t, l.db, "n4")
	l.sent("e3", "n4")
}
