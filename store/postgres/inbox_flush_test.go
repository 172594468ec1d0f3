package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func TestWhatIsFlushedWithTheWorkAndWhatWithItsPieces(t *testing.T) {
	s := processes(t, 1)[0]
	modes := map[string][]string{}
	items := []settle.Item{concurrent.Item("a", 1), concurrent.Item("b", 1), concurrent.Item("c", 1)}
	results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		var mode string
		if err := tx.QueryRowContext(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&mode); err != nil {
			return err
		}
		id := items[i].Record.Event.ID
		modes[id] = append(modes[id], mode)
		if i == 1 {
			return errors.New("unlucky")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := concurrent.Verdicts(results), []settle.Verdict{settle.VerdictApplied, settle.VerdictFailed, settle.VerdictApplied}; !slices.Equal(got, want) {
		t.Errorf("verdicts are %v, want %v", got, want)
	}
	want := map[string][]string{"a-001": {"on", "off"}, "b-001": {"on"}, "c-001": {"off"}}
	for id := range want {
		if !slices.Equal(modes[id], want[id]) {
			t.Errorf("event %s was handled with synchronous_commit %v, want %v", id, modes[id], want[id])
		}
	}
}
