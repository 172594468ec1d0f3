package drill_test

import (
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/drill"
)

// On PostgreSQL ids are given before the commit, so the later event may be seen
// first.
func TestAWatchCountsAnEventThatShowsAfterALaterOne(t *testing.T) {
	at := postgresSchema(t, "test_"+strings.ReplaceAll(settle.NewID(), "-", ""))
	db := openDatabase(t, at)
	defer func() { _ = db.Close() }()
	service, err := drill.OpenService("order", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Close() }()
	watch := drill.NewWatch([]*drill.Service{service}, nil)
	counted := func(want int64) {
		t.Helper()
		if s, err := watch.State(t.Context()); err != nil || s.Accepted != want || s.Unpublished != want {
			t.Errorf("%+v, %v; want %d accepted", s, err, want)
		}
	}
	var ends []func() error
	for _, id := range []string{"earlier", "later"} {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := db.Append(t.Context(), tx, &settle.Event{ID: id, Type: "order.created", AggregateID: id, Payload: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, tx.Commit)
	}
	counted(0)
	for i, commit := range []func() error{ends[1], ends[0]} {
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		counted(int64(i + 1))
	}
}
