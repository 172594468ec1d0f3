package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/server"
)

func TestAnotherRelayOnAnAdoptedTableIsToldOnceAndMakesASourceUnreadyOnlyWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	at, broker := freshDatabase(t), serveBroker(t)
	execPostgres(t, at, classicOutbox)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at)
	source := "sources:\n  order: {db: '" + at + "?search_path=settle', broker: '" + broker + "', durability: lax, relay: {sweep_every: 100ms}"
	warns := writeConfig(t, t.TempDir(), source+"}\n")
	strict := writeConfig(t, t.TempDir(), source+", other_relay: unready}\n")
	plain, gate := serve(t, warns), serve(t, strict)
	warned := func(h server.Health) bool {
		return strings.Contains(strings.Join(h.Sources["order"].Warnings, " "), "old_relay: ")
	}
	calm := func(h server.Health) bool { return h.Ready && !warned(h) }
	plain.await(t, "ready", calm)
	gate.await(t, "ready", calm)

	// The old relay sends what Settle has not read.
	execPostgres(t, at, `INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) VALUES ('e-3', 'k', 'x', '{}', 'SENT'), ('e-4', 'k', 'x', '{}', 'SENT')`)
	h := plain.await(t, "warning", warned)
	text := strings.Join(h.Sources["order"].Warnings, " ")
	if !h.Ready || !strings.Contains(text, "another relay has sent or taken 2 rows") || !strings.Contains(text, "stop it") {
		t.Errorf("ready is %v, with %q", h.Ready, text)
	}
	gate.await(t, "not ready", func(h server.Health) bool { return warned(h) && !h.Ready })
	if _, code := gate.read(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", code)
	}
	if out := must(t, cli.ExitOK, "serve", "-c", warns, "--check"); !strings.Contains(out, "warning: old_relay: another relay has sent") {
		t.Errorf("--check says\n%s", out)
	}
	// It goes on, and ends.
	execPostgres(t, at, `INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) VALUES ('e-5', 'k', 'x', '{}', 'SENT')`)
	plain.await(t, "counting on", func(h server.Health) bool {
		return strings.Contains(strings.Join(h.Sources["order"].Warnings, " "), "taken 3 rows")
	})
	execPostgres(t, at, `UPDATE settle.settle_adoption SET foreign_seen_at = foreign_seen_at - interval '16 min'`)
	plain.await(t, "calm again", calm)
	gate.await(t, "ready again", calm)
	for _, s := range []*serving{plain, gate} {
		s.term(t)
		for _, line := range []string{`msg="another relay is at work`, `msg="of the other relay nothing was seen`} {
			if n := strings.Count(s.log.String(), line); n != 1 {
				t.Errorf("%s is told %d times:\n%s", line, n, s.log)
			}
		}
	}
}
