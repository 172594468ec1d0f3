package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
)

func TestTheWayDownIsRefusedWhileARelayLeadsEvenAPausedOneAndSaysWhenNothingIsThere(t *testing.T) {
	onEach(t, func(l lives, _ string) {
		lease, err := l.db.Log.Lead(l.Context(), "a relay", 0, time.Hour)
		if err != nil || !lease.Held {
			l.Fatal(lease, err)
		}
		must(l.T, cli.ExitOK, "pause", "order", "relay", "--db", "order="+l.url)
		for _, to := range []string{"0", "4"} {
			out := must(l.T, cli.ExitFinding, "migrate", "down", "--to", to, "--db", l.url)
			if !strings.Contains(out, "a relay leads this outbox: a relay, until") || !strings.Contains(out, "end it (settle serve") {
				l.Errorf("down to %s says\n%s", to, out)
			}
		}
		if out := must(l.T, cli.ExitOK, "migrate", "status", "--db", l.url); strings.Contains(out, "missing") {
			l.Errorf("a refused way down has taken something back:\n%s", out)
		}
		if err := l.db.Log.Resign(l.Context(), lease); err != nil {
			l.Fatal(err)
		}
		if out := must(l.T, cli.ExitOK, "migrate", "down", "--to", "0", "--db", l.url); !strings.Contains(out, "took back 1 outbox") {
			l.Errorf("down says\n%s", out)
		}
		for _, dry := range []bool{false, true} {
			words := []string{"migrate", "down", "--to", "0", "--db", l.url}
			want := "nothing to take back: no migration above 0 is there\n"
			if dry {
				words, want = append(words, "--dry-run"), "-- nothing to do\n"
			}
			if out := must(l.T, cli.ExitOK, words...); out != want {
				l.Errorf("a second time it says\n%s", out)
			}
		}
	})
}

func TestTheWayDownNamesDiscardedAndPassedRowsThatTheOldRelayWouldSendAndTheSQLThatMarksThem(t *testing.T) {
	at := freshDatabase(t)
	execPostgres(t, at, classicOutbox+`; INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) VALUES ('e-3', 'k3', 'x', '{}', 'PENDING'), ('e-4', 'k4', 'x', '{}', 'PENDING')`)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at, "--status", "dead=DEAD")
	own := at + "?search_path=settle"
	must(t, cli.ExitOK, "skip", "order", "e-3", "--reason", "a test", "--db", "order="+own)
	execPostgres(t, own, `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_id, biz_key, class, reason, attempts, state, blocking, opened_at, due_at, topic, record_key)
 VALUES ('relay', '', 'e-4', 'order-domain-event', 4, 'x', 'k4', 'k4', 'publish', 'x', 1, 'DISCARDED', false, now(), now(), 'order-domain-event', 'k4')`)
	const mark = "UPDATE public.t_outbox_event SET status = 'DEAD' WHERE"
	if out := must(t, cli.ExitFinding, "migrate", "down", "--to", "0", "--db", own); !strings.Contains(out, "2 rows were discarded or passed and wait in public.t_outbox_event; mark them: "+mark) {
		t.Errorf("down says\n%s", out)
	}
	plan := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--dry-run", "--db", own)
	first, _, _ := strings.Cut(plan, "BEGIN;")
	if !strings.Contains(first, "-- 2 rows were discarded or passed") || !strings.Contains(first, mark) {
		t.Errorf("the plan is\n%s", plan)
	}
	execPostgres(t, at, first[:strings.LastIndex(first, "--")])
	execPostgres(t, at, `SELECT 1 / (SELECT count(*) FROM t_outbox_event WHERE event_id IN ('e-3', 'e-4') AND status = 'DEAD' HAVING count(*) = 2)`)
	must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", own)
}

func TestTheWayDownFromAnAdoptedTableIsRefusedWhileARelayLeads(t *testing.T) {
	at := freshDatabase(t)
	execPostgres(t, at, classicOutbox)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at)
	own := at + "?search_path=settle"
	db, err := dial.Store(t.Context(), own, dial.StoreConfig{Service: "order"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lease, err := db.Log.Lead(t.Context(), "a relay", 0, time.Hour)
	if err != nil || !lease.Held {
		t.Fatal(lease, err)
	}
	if out := must(t, cli.ExitFinding, "migrate", "down", "--to", "0", "--db", own); !strings.Contains(out, "a relay leads this outbox: a relay, until") {
		t.Errorf("down says\n%s", out)
	}
	if err := db.Log.Resign(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", own)
	if out := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", own); !strings.Contains(out, "nothing to take back") {
		t.Errorf("a second time it says\n%s", out)
	}
}
