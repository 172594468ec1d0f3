package cli_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/txmsg"
)

// What went as a half message is told beside what goes by the outbox, and is
// repaired as all dead letters are.
func TestAHalfMessageIsToldInTheTrailAndRepairedAsADeadLetter(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h := db.Halves()
	e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte(`{"total":1}`)}
	if err := e.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	record := txmsg.Record{ID: "here.1", Handle: "broker-a:7", Event: e, SweepAfter: time.Hour}
	outcome, err := h.Transact(t.Context(), record, func(ctx context.Context, tx *sql.Tx) error {
		return db.Append(ctx, tx, &settle.Event{ID: "e-2", Type: "order.paid", AggregateID: "o-1", Payload: []byte(`{}`)})
	})
	if outcome != txmsg.Committed || err != nil {
		t.Fatalf("Transact: %v, %v", outcome, err)
	}
	for range 2 {
		if v, err := h.Judge(t.Context(), txmsg.Inquiry{ID: "here.1", EventID: "e-1", EventType: "order.created", Key: "o-1", ByBroker: true, Owner: "p1"}); v != txmsg.Commit || err != nil {
			t.Fatalf("Judge: %v, %v", v, err)
		}
	}
	has := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it does not print %q:\n%s", w, out)
			}
		}
	}
	has(must(t, cli.ExitOK, "trail", "o-1", "--dir", dir), "half", "kept back as broker-a:7", "committed", "the broker has not confirmed it", "checked", "2 times, by p1", "answered COMMIT", "appended", "order.paid")
	if err := h.Mark(t.Context(), txmsg.Mark{ID: "here.1", Result: txmsg.ResultGivenUp, Tries: 10, Class: settle.ClassPublish, Cause: "no such topic"}); err != nil {
		t.Fatal(err)
	}
	has(must(t, cli.ExitOK, "dead", "list", "--dir", dir), "order:1", "publish_refused", "10 attempts", "a half message", "no such topic")
	has(must(t, cli.ExitOK, "dead", "replay", "order:1", "--by", "ann", "--reason", "the topic is there", "--dir", dir), "order:1")
	if err := h.Confirm(t.Context(), []string{"here.1"}); err != nil {
		t.Fatal(err)
	}
	has(must(t, cli.ExitOK, "trail", "o-1", "--dir", dir), "dead", "replay", "by ann", "confirmed", "the broker delivers it")
}
