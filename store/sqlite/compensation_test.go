package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/sqlite"
)

func TestWhatWasReplayedBeforeCompensationsWereKnownIsHandled(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "inventory.db")
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := &settle.Event{ID: "1", Type: "x", AggregateID: "k", Payload: []byte("{}")}
	it := settle.Item{Intent: settle.IntentDie, Attempt: 1, Class: settle.ClassHandler, Record: settle.Record{Event: e, Key: "k"}}
	if _, err := s.Inbox().Apply(ctx, settle.Work{Group: "inventory", Items: []settle.Item{it}}, nil); err != nil {
		t.Fatal(err)
	}
	letters, err := s.Governance().DeadLetters(ctx, govern.Filter{})
	if err != nil || len(letters) != 1 {
		t.Fatalf("DeadLetters: %+v, %v", letters, err)
	}
	if _, err := s.Governance().Replay(ctx, govern.Act{By: "ann"}, govern.ReplayOptions{}, letters[0].ID); err != nil {
		t.Fatal(err)
	}
	// The file as the program before left it.
	if _, err := s.DB().ExecContext(ctx, `DROP TABLE t_half_check; DROP TABLE t_half_message; DROP TABLE t_half_scope; DROP TABLE t_bridge_lease; DROP TABLE t_bridged_letter; ALTER TABLE t_outbox_parked DROP COLUMN tried_together;
ALTER TABLE t_consume_retry DROP COLUMN compensate; ALTER TABLE t_outbox_delayed DROP COLUMN owed; ALTER TABLE t_outbox_extra DROP COLUMN owed;
DELETE FROM settle_schema WHERE version_id >= 5`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(ctx, path, sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	due, err := s.Inbox().Due(ctx, "inventory", 10)
	if err != nil || len(due.Items) != 1 || due.Items[0].Compensate {
		t.Fatalf("Due: %+v, %v; want the event, to be handled", due, err)
	}
	handled := 0
	results, err := s.Inbox().Apply(ctx, settle.Work{Group: "inventory", Items: due.Items}, func(context.Context, *sql.Tx, int) error {
		handled++
		return nil
	})
	if err != nil || results[0].Verdict != settle.VerdictApplied || handled != 1 {
		t.Errorf("Apply: %+v, %v, handled %d times", results, err, handled)
	}
}

func TestALetterOfTheRelayCanNotBeCompensated(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.DB().ExecContext(ctx, `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, class, reason, attempts, state, opened_at, due_at)
VALUES ('relay', '', 'e1', 'publish_refused', 'too large', 1, 'OPEN', 1, 2)`); err != nil {
		t.Fatal(err)
	}
	out, err := s.Governance().Compensate(ctx, govern.Act{By: "ann", Reason: "no use"}, 1)
	want := "it was never published, so no group has anything of it to undo; replay it, or discard it"
	if err != nil || len(out) != 1 || out[0].Result != "refused" || out[0].Why != want {
		t.Errorf("Compensate: %+v, %v; want it refused: %s", out, err, want)
	}
}
